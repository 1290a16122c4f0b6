//! Randomness that can be had again: a test that fails shows its seed.

use std::env;

use rand::rngs::StdRng;
use rand::{SeedableRng, random};

/// Random numbers of a test: from DLOCK_SEED, or from a seed of its own, which is printed.
pub fn rng() -> StdRng {
    let seed = match env::var("DLOCK_SEED") {
        Ok(text) => text.parse().expect("DLOCK_SEED is a number"),
        Err(_) => random(),
    };
    // Shown when the test fails.
    eprintln!("to run this again: DLOCK_SEED={seed} make test");
    StdRng::seed_from_u64(seed)
}
