//! Old and new services on the same keys.
