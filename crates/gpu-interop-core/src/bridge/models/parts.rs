//! Parts of the bridge that are shared without its thread.

use std::sync::Arc;

use loom::thread;

use super::{Memory, check};
use crate::bridge::words::Words;

/// Words that are taken and put back at the same time are nobody else's meanwhile, and only grow.
#[test]
fn words_have_one_user_at_a_time() {
    check(|| {
        let words = Arc::new(Words::default());
        let user = |words: &Words| {
            for _ in 0..2 {
                let ticket = words.take(|| Ok(Memory::new(1).signal_memory())).expect("a word");
                assert!(!ticket.is_reached(), "somebody else's ticket");
                ticket.reach();
                words.put(ticket);
            }
        };
        let shared = words.clone();
        let thread = thread::spawn(move || user(&shared));
        user(&words);
        thread.join().expect("join");
        assert_eq!(words.in_use(), 0);
    });
}
