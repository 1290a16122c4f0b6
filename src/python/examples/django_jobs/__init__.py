"""An application of Django with commands for several replicas. Add ``django_jobs`` to ``INSTALLED_APPS``, and
set ``DLOCK_NODES``."""
