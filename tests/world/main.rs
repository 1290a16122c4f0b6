//! What docs/fences.md says of stores that are not ours, against the real thing. `make test-world`
//! installs them and runs these tests; `make test` does not.

mod postgres;
