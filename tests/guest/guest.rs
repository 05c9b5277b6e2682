//! Wall timers on a machine whose clock may be set, and that may sleep: the init program of a virtual machine, which
//! `ci/guest` boots. It sets the clock of its machine, so it runs as process 1 alone.

#[cfg(target_os = "linux")]
mod guest {
    use std::sync::mpsc::{self, Receiver};
    use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
    use std::{fs, panic, process, thread};

    use corewheel::Timer;
    use corewheel::wall::WallTimer;
    use rustix::mount::{MountFlags, mount};
    use rustix::system::{RebootCommand, reboot};
    use rustix::time::{ClockId, Timespec, clock_settime};

    const MS: Duration = Duration::from_millis(1);
    const HOUR: Duration = Duration::from_secs(3600);
    /// How late a callback may be after a set or a resume.
    const LATE: Duration = Duration::from_millis(100);

    fn set_time_of_day(to: SystemTime) {
        let since = to.duration_since(UNIX_EPOCH).unwrap();
        let time = Timespec { tv_sec: since.as_secs() as i64, tv_nsec: since.subsec_nanos().into() };
        clock_settime(ClockId::Realtime, time).unwrap();
    }

    /// Schedules a callback that sends the time of day and the instant at which it runs.
    fn at(wall: &WallTimer, at: SystemTime) -> Receiver<(SystemTime, Instant)> {
        let (sender, receiver) = mpsc::channel();
        wall.schedule_at(at, move || sender.send((SystemTime::now(), Instant::now())).unwrap()).unwrap();
        receiver
    }

    fn assert_ran(what: &str, due: SystemTime, since: Instant, ran: &Receiver<(SystemTime, Instant)>) {
        let (day, instant) = ran.recv_timeout(10 * LATE).unwrap();
        assert!(day >= due, "{what}: early");
        let late = instant.saturating_duration_since(since);
        assert!(late <= LATE, "{what}: {late:?} late");
        println!("{what}: {late:?} late");
    }

    fn set_forward(wall: &WallTimer) {
        let due = SystemTime::now() + HOUR;
        let ran = at(wall, due);
        assert!(wall.is_told());
        thread::sleep(50 * MS);
        set_time_of_day(due - 200 * MS);
        thread::sleep(100 * MS);
        assert!(ran.try_recv().is_err(), "early");
        let since = Instant::now();
        set_time_of_day(due);
        assert_ran("set forward", due, since, &ran);
    }

    fn set_back(wall: &WallTimer) {
        let due = SystemTime::now() + 300 * MS;
        let ran = at(wall, due);
        set_time_of_day(due - HOUR);
        thread::sleep(1000 * MS);
        assert!(ran.try_recv().is_err(), "early");
        let since = Instant::now();
        set_time_of_day(due);
        assert_ran("set back, and forward", due, since, &ran);
    }

    fn storm_of_sets(timer: &Timer, wall: &WallTimer) {
        let due = SystemTime::now() + HOUR;
        let ran = at(wall, due);
        let before = timer.stats().resets;
        for _ in 0..1000 {
            set_time_of_day(SystemTime::now());
            thread::sleep(MS / 2);
        }
        let start = Instant::now();
        let resets = timer.stats().resets - before;
        println!("1000 sets: {resets} times told");
        assert!((2..500).contains(&resets));
        set_time_of_day(due);
        assert_ran("set forward after a storm", due, start, &ran);
    }

    fn suspend(timer: &Timer, wall: &WallTimer) {
        let (sender, lease) = mpsc::channel();
        let delay = Duration::from_secs(4);
        wall.schedule_after(delay, move || sender.send(Instant::now()).unwrap()).unwrap();
        let awake = timer.schedule(delay, || ()).unwrap();
        let due = SystemTime::now() + delay;
        let by_day = at(wall, due);
        fs::write("/sys/class/rtc/rtc0/wakealarm", "+6").unwrap();
        let (day, start) = (SystemTime::now(), Instant::now());
        let state = fs::read_to_string("/sys/power/state").unwrap();
        let state = if state.contains("mem") { "mem" } else { "freeze" };
        fs::write("/sys/power/state", state).unwrap();
        let resumed = Instant::now();
        println!("{state}: {:?} by the time of day, {:?} by Instant", day.elapsed(), start.elapsed());
        assert!(day.elapsed().unwrap() > delay && start.elapsed() < delay && awake.is_pending());
        let late = lease.recv_timeout(10 * LATE).unwrap().saturating_duration_since(resumed);
        println!("resume: {late:?} late");
        assert!(late <= LATE);
        assert_ran("resume, by the time of day", due, resumed, &by_day);
    }

    pub(crate) fn main() {
        assert_eq!(process::id(), 1, "sets the clock of its machine: only for a virtual machine");
        mount("sys", "/sys", "sysfs", MountFlags::empty(), None).unwrap();
        // What `/proc` tells is of use to the growth of the pool alone.
        mount("proc", "/proc", "proc", MountFlags::empty(), None).unwrap();
        let result = panic::catch_unwind(|| {
            let timer = Timer::new().unwrap();
            let wall = WallTimer::new(&timer);
            set_forward(&wall);
            set_back(&wall);
            storm_of_sets(&timer, &wall);
            suspend(&timer, &wall);
            // Once more, after the resume.
            set_forward(&wall);
        });
        println!("guest: {}", if result.is_ok() { "ok" } else { "failed" });
        let _ = reboot(RebootCommand::PowerOff);
    }
}

fn main() {
    #[cfg(target_os = "linux")]
    guest::main();
}
