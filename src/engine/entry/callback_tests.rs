//! Unit tests of `callback`.

use std::mem;
use std::sync::Arc;

use super::callback::{Callback, CallbackKind, PeriodicCallback};

fn once<F: FnOnce() + Send + 'static>(f: F) -> Callback {
    Callback::once::<F, F>(f)
}

fn holding(token: &Arc<()>) -> impl FnOnce() + Send + use<> {
    let token = token.clone();
    move || drop(token)
}

#[test]
fn is_four_words() {
    assert_eq!(mem::size_of::<Callback>(), 4 * mem::size_of::<usize>());
}

#[test]
fn small_and_large_closures_run_or_drop_once() {
    let token = Arc::new(());
    let large = |token: &Arc<()>| {
        let f = holding(token);
        let ballast = [7_u8; 100];
        move || {
            assert_eq!(ballast[99], 7);
            f();
        }
    };
    once(holding(&token)).run();
    once(Box::new(large(&token))).run();
    drop(once(holding(&token)));
    drop(once(Box::new(large(&token))));
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn only_a_small_closure_is_stored_inline() {
    assert!(Callback::is_inline::<[usize; 3]>());
    assert!(!Callback::is_inline::<[usize; 4]>() && !Callback::is_inline::<u128>());
    let token = Arc::new(());
    let callback = once(holding(&token));
    assert_eq!((callback.kind(), Arc::strong_count(&token)), (CallbackKind::Once, 2));
}

#[test]
fn a_periodic_callback_returns_its_next_deadline() {
    struct Every {
        ticks: u64,
        next: u64,
        _token: Arc<()>,
    }
    impl PeriodicCallback for Every {
        fn run(&mut self) -> Option<u64> {
            self.next += self.ticks;
            Some(self.next)
        }

        fn reset(&mut self, due: u64) {
            self.next = due;
        }
    }
    let token = Arc::new(());
    let mut callback = Callback::periodic::<()>(Box::new(Every { ticks: 3, next: 4, _token: token.clone() }));
    assert_eq!(callback.kind(), CallbackKind::Periodic);
    assert_eq!(callback.run_again(), Some(7));
    callback.note_reset(20);
    assert_eq!(callback.run_again(), Some(23));
    callback.run();
    assert_eq!(Arc::strong_count(&token), 1);
}
