//! The proof at length: the model with more in it than there is time for in each run of the tests.

use std::time::Instant;

use dlock_core::quorum::Sound;
use dlock_proof::model::{EXCLUSIVE, SHARED, Setting};
use stateright::{Checker, Model};

fn main() {
    let two = Setting::new(Sound, &[EXCLUSIVE, EXCLUSIVE]);
    let all = std::env::args().nth(1).is_some_and(|word| word == "all");
    let settings = [
        ("a request twice", Setting { twice: 1, ..two.clone() }),
        ("two crashes", Setting { crashes: 2, ..two.clone() }),
        ("counted far", Setting { counted: 4, ..two.clone() }),
    ];
    for (what, setting) in settings {
        let begun = Instant::now();
        let checker = setting.checker().threads(2).spawn_dfs().join();
        println!("{what}: all of {} states, {:.1?}", checker.unique_state_count(), begun.elapsed());
        checker.assert_properties();
    }
    let _ = (all, SHARED);
}
