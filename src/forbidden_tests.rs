//! What the types forbid: for each case a program that compiles, and the same with one change, which must not. Only a
//! nightly toolchain compares the codes of the errors.

macro_rules! forbidden {
    ($name:ident, $why:literal: $before:literal, $allowed:literal not $refused:literal as $error:literal, $after:literal) => {
        #[doc = $why]
        #[doc = "```"]
        #[doc = concat!($before, $allowed, $after)]
        #[doc = "```"]
        #[doc = concat!("```compile_fail,", $error)]
        #[doc = concat!($before, $refused, $after)]
        #[doc = "```"]
        mod $name {}
    };
}

forbidden!(a_handle_is_not_cloned, "Each timer has one handle, which threads share by reference.":
"use corewheel::Timer;
let timer = Timer::new().unwrap();
let handle = timer.schedule(std::time::Duration::from_secs(1), || ()).unwrap();
let handle = ", "std::sync::Arc::new(handle)" not "handle" as "E0599", ";
let other = handle.clone();
std::thread::spawn(move || other.cancel());
handle.cancel();");

forbidden!(a_guard_takes_the_handle, "A guard cancels its timer, so it is the only owner.":
"use corewheel::Timer;
let timer = Timer::new().unwrap();
let handle = timer.schedule(std::time::Duration::from_secs(1), || ()).unwrap();
let guard = handle.cancel_on_drop();
", "guard" not "handle" as "E0382", ".cancel();");

forbidden!(a_callback_is_send, "A callback runs on another thread.":
"use corewheel::Timer;
let timer = Timer::new().unwrap();
let shared = std::", "sync::Arc" not "rc::Rc" as "E0277", "::new(1);
timer.schedule(std::time::Duration::from_secs(1), move || drop(shared)).unwrap();");

forbidden!(a_callback_borrows_no_local, "A callback may run after the function that scheduled it.":
"use corewheel::Timer;
let timer = Timer::new().unwrap();
let name = String::from(\"local\");
timer.schedule(std::time::Duration::from_secs(1), ", "move ||" not "||" as "E0373", " println!(\"{name}\")).unwrap();");

forbidden!(a_repeating_callback_consumes_nothing, "A repeating callback runs more than once.":
"use corewheel::Timer;
let timer = Timer::new().unwrap();
let name = String::from(\"captured\");
let run = move || drop(", "name.clone()" not "name" as "E0525", ");
timer.schedule_at_fixed_rate(std::time::Duration::ZERO, std::time::Duration::from_secs(1), run).unwrap();");

forbidden!(a_driver_is_not_cloned, "One value has the right to drive a shard.":
"use corewheel::Timer;
let timer = Timer::new().unwrap();
let driver = timer.take_driver().unwrap();
let mut other = driver", "" not ".clone()" as "E0599", ";
other.drive();");

forbidden!(one_thread_drives_at_a_time, "Two threads do not drive a shard at once.":
"use corewheel::Timer;
let timer = Timer::new().unwrap();
let mut driver = timer.take_driver().unwrap();
std::thread::scope(|scope| {
    scope.spawn(|| driver.drive());
    ", "" not "scope.spawn(|| driver.drive());" as "E0499", "
});");

forbidden!(a_value_is_removed_once, "The key of a value ends with it.":
"use corewheel::{DelayQueue, Timer};
let timer = Timer::new().unwrap();
let queue = DelayQueue::new(&timer);
let key = queue.push(std::time::Duration::from_secs(1), 1).unwrap();
key.remove();
", "" not "key.remove();" as "E0382", "");

forbidden!(a_value_of_a_queue_is_send, "A consumer may be on another thread.":
"use corewheel::{DelayQueue, Timer};
let timer = Timer::new().unwrap();
let queue = DelayQueue::<std::", "sync::Arc" not "rc::Rc" as "E0277", "<u32>>::new(&timer);");

forbidden!(a_timeout_is_as_send_as_its_future, "A timeout has its future inside.":
"use corewheel::Timer;
let timer = Timer::new().unwrap();
let future = std::future::ready(std::", "sync::Arc" not "rc::Rc" as "E0277", "::new(1));
let timeout = timer.timeout(std::time::Duration::from_secs(1), future);
std::thread::spawn(move || drop(timeout));");

forbidden!(an_interval_has_one_next_tick, "Two tasks do not wait for the same tick.":
"use corewheel::Timer;
let timer = Timer::new().unwrap();
let mut interval = timer.interval(std::time::Duration::from_secs(1));
let tick = interval.tick();
", "" not "drop(interval.tick());" as "E0499", "
drop(tick);");

forbidden!(what_a_shutdown_hands_back_runs_once, "A callback that a shutdown hands back is one value.":
"use corewheel::Timer;
for unfired in Timer::new().unwrap().shutdown() {
    unfired.run();
    ", "" not "unfired.run();" as "E0382", "
}");

forbidden!(an_executor_may_be_added, "A later version may have more executors.":
"use corewheel::Executor;
match Executor::Inline {
    Executor::Pool { .. } | Executor::Rayon(_) | Executor::RayonGlobal | Executor::Inline | Executor::Custom(_) => (),
    ", "_ => ()," not "" as "E0004", "
}");

forbidden!(a_wheel_is_as_send_as_its_values, "A wheel has its values inside.":
"use corewheel::Wheel;
let mut wheel = Wheel::new(0);
wheel.insert(1, std::", "sync::Arc" not "rc::Rc" as "E0277", "::new(1));
std::thread::spawn(move || wheel.advance(1, |_, _| ()));");

forbidden!(a_value_of_a_wheel_is_borrowed_until_an_advance, "An advance may take any value out.":
"use corewheel::Wheel;
let mut wheel = Wheel::new(0);
let key = wheel.insert(1, 1);
let value = wheel.get(key)", ".copied()" not "" as "E0502", ";
wheel.advance(1, |_, _| ());
println!(\"{value:?}\");");
