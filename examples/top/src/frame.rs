//! Draws a frame: the header, what happens a second, the shards, and a histogram of the lateness.

use std::time::Duration;

use corewheel::{Group, ShardStats, SlowCallback, Stats};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Bar, BarChart, BarGroup, Block, Cell, Paragraph, Row, Sparkline, Table};

use crate::figures;
use crate::history::{Difference, History};

/// The size that a frame needs.
const COLUMNS: u16 = 80;
const ROWS: u16 = 24;
/// Rows of the header, of the rates with their borders, and at least of the histogram.
const HEADER: u16 = 3;
const RATES: u16 = 10;
const HISTOGRAM: u16 = 6;
/// Rows of the table of shards beside those of the shards.
const SHARD_BORDERS: u16 = 3;
/// Columns of a bar of the histogram.
const BAR: u16 = 5;

/// Returns one of the counts.
type Count = fn(&Stats) -> u64;

/// What a frame shows.
pub struct View<'a> {
    pub history: &'a History,
    /// Number of workers of the timer, without the extra ones.
    pub workers: usize,
    pub connections: usize,
    /// The last callback that took long.
    pub slow: Option<SlowCallback>,
    /// What is pending, by what armed it.
    pub census: Vec<Group>,
}

impl View<'_> {
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        if area.width < COLUMNS || area.height < ROWS {
            let text = format!("The terminal must have {COLUMNS} columns and {ROWS} rows. q quits");
            frame.render_widget(Paragraph::new(text), area);
            return;
        }
        let shards = self.history.last().stats.shards();
        let room = area.height - HEADER - RATES - HISTOGRAM;
        let table = SHARD_BORDERS.saturating_add(u16::try_from(shards.len()).unwrap_or(u16::MAX)).min(room);
        let heights = [HEADER, RATES, table].map(Constraint::Length).into_iter().chain([Constraint::Fill(1)]);
        let [header, middle, table, histogram] = Layout::vertical(heights).areas(area);
        let [rates, curve] = Layout::horizontal([Constraint::Length(52), Constraint::Fill(1)]).areas(middle);
        let (recent, windowed) = (self.history.recent(), self.history.windowed());
        self.header(frame, header, &recent);
        self.rates(frame, rates, &recent, &windowed);
        self.pending(frame, curve);
        self.shards(frame, table, &recent, &windowed);
        self.histogram(frame, histogram, &windowed);
    }

    fn header(&self, frame: &mut Frame<'_>, area: Rect, recent: &Difference) {
        let stats = &self.history.last().stats;
        let Stats { pending, running, extra_threads, extra_threads_needed, .. } = *stats;
        let threads = format!("{} drivers, {} workers, {extra_threads} extra", stats.shards().len(), self.workers);
        let groups =
            self.census.iter().map(|group| format!("{} {}", figures::count(group.pending), function(group.name)));
        let groups = groups.collect::<Vec<_>>().join(", ");
        let uptime = figures::time(self.history.uptime());
        let lines = [
            Line::from(format!("corewheel, up {uptime}: {} pending; {threads}", figures::count(pending))).bold(),
            Line::from(format!(
                "load: {} connections, {} requests a second; extra threads needed {} times",
                figures::count(self.connections as u64),
                figures::rate(recent.rate(recent.answers)),
                figures::count(extra_threads_needed),
            )),
            Line::from(format!("{} running; pending: {groups}", figures::count(running))),
        ];
        frame.render_widget(Text::from_iter(lines), area);
        let key = Rect { y: area.y, height: 1, ..area };
        frame.render_widget(Line::from("q quits").alignment(Alignment::Right).dim(), key);
    }

    fn rates(&self, frame: &mut Frame<'_>, area: Rect, recent: &Difference, windowed: &Difference) {
        let counts: [(&str, Count); 7] = [
            ("armed", |stats| stats.scheduled),
            ("reset", |stats| stats.resets),
            ("cancelled", |stats| stats.cancelled),
            ("fired", |stats| stats.fired),
            ("enqueued", |stats| stats.enqueued),
            ("wake-ups", |stats| stats.wakeups),
            ("refused", |stats| stats.rejected),
        ];
        let total = &self.history.last().stats;
        let rows = counts.map(|(name, count)| {
            let rates = [recent, windowed].map(|difference| figures::rate(difference.rate(count(&difference.stats))));
            row([name.to_owned()].into_iter().chain(rates).chain([figures::count(count(total))]))
        });
        let head = ["", "a second", &format!("mean of {}", figures::time(rounded(windowed.time))), "total"];
        let table = Table::new(rows, [10, 10, 12, 15].map(Constraint::Length))
            .header(row(head.map(String::from)).bold())
            .block(Block::bordered().title(" timers "));
        frame.render_widget(table, area);
    }

    fn pending(&self, frame: &mut Frame<'_>, area: Rect) {
        let block = Block::bordered().title(" pending ");
        let columns = usize::from(block.inner(area).width);
        let curve = self.history.pending();
        let skipped = curve.len().saturating_sub(columns);
        let curve = Sparkline::default().data(curve.skip(skipped)).style(Style::new().fg(Color::Cyan));
        frame.render_widget(curve.block(block), area);
    }

    fn shards(&self, frame: &mut Frame<'_>, area: Rect, recent: &Difference, windowed: &Difference) {
        let shards = self.history.last().stats.shards();
        let shown = usize::from(area.height - SHARD_BORDERS).min(shards.len());
        let rows = (0..shown).map(|number| {
            let changes = &recent.stats.shards()[number];
            let counts: [fn(&ShardStats) -> u64; 5] = [
                |shard| shard.scheduled,
                |shard| shard.resets,
                |shard| shard.cancelled,
                |shard| shard.fired,
                |shard| shard.wakeups,
            ];
            let rates = counts.map(|count| figures::rate(recent.rate(count(changes))));
            let late = figures::duration(windowed.stats.shards()[number].lateness.quantile(0.99));
            row([number.to_string(), figures::count(shards[number].pending)].into_iter().chain(rates).chain([late]))
        });
        let title = match shards.len() - shown {
            0 => " shards, a second ".to_owned(),
            _ => format!(" shards 0 to {} of {}, a second ", shown - 1, shards.len()),
        };
        let head = ["shard", "pending", "armed", "reset", "cancelled", "fired", "wake-ups", "p99 late"];
        let table = Table::new(rows, [5, 10, 9, 9, 10, 9, 9, 9].map(Constraint::Length))
            .header(row(head.map(String::from)).bold())
            .block(Block::bordered().title(title));
        frame.render_widget(table, area);
    }

    fn histogram(&self, frame: &mut Frame<'_>, area: Rect, windowed: &Difference) {
        let late = &windowed.stats.lateness;
        let quantile = |share| figures::duration(late.quantile(share));
        let title = format!(
            " lateness of {}: {} runs, p50 {}, p99 {}, max {} ",
            figures::time(rounded(windowed.time)),
            figures::count(late.count()),
            quantile(0.5),
            quantile(0.99),
            quantile(1.0),
        );
        let ever = &self.history.last().stats.lateness;
        let ever = format!(
            " since the start: {} runs, p99 {}, max {} ",
            figures::count(ever.count()),
            figures::duration(ever.quantile(0.99)),
            figures::duration(ever.max()),
        );
        let mut block = Block::bordered().title(title).title_bottom(ever);
        if let Some(slow) = &self.slow {
            let who = format!(" slow: {} {} ", figures::duration(slow.took), slow.callback);
            block = block.title_bottom(Line::from(who).right_aligned());
        }
        let room = usize::from((block.inner(area).width + 1) / (BAR + 1));
        let bars: Vec<_> = bars(late.buckets(), room)
            .into_iter()
            .map(|(label, runs)| {
                let bar = Bar::default().value(runs).label(Line::from(label));
                if runs == 0 { bar.text_value(String::new()) } else { bar }
            })
            .collect();
        let chart = BarChart::default()
            .data(BarGroup::default().bars(&bars))
            .bar_width(BAR)
            .bar_gap(1)
            .bar_style(Style::new().fg(Color::Green))
            .value_style(Style::new().fg(Color::Black).bg(Color::Green));
        frame.render_widget(chart.block(block), area);
    }
}

/// Returns the last two parts of the name of a closure's function, or of a type.
fn function(name: &str) -> String {
    let parts: Vec<_> = name.split("::").filter(|part| *part != "{{closure}}").collect();
    parts[parts.len().saturating_sub(2)..].join("::")
}

/// Returns a row of a table: the first column is aligned left, the others right.
fn row(columns: impl IntoIterator<Item = String>) -> Row<'static> {
    let alignments = [Alignment::Left].into_iter().chain(std::iter::repeat(Alignment::Right));
    let cells = columns.into_iter().zip(alignments);
    Row::new(cells.map(|(text, alignment)| Cell::from(Line::from(text).alignment(alignment))))
}

/// Returns a time rounded to whole seconds, because readings are milliseconds off.
fn rounded(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs_f64().round() as u64)
}

/// Returns `room` bars of a histogram: the label and the runs of each. A bar covers what exceeds the bar before it, up to
/// its label; the last covers the rest.
fn bars(buckets: impl Iterator<Item = (Duration, u64)>, room: usize) -> Vec<(String, u64)> {
    // From 1 µs to 10 s.
    let limits: Vec<u64> =
        (3..=9).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power))).chain([10_u64.pow(10)]).collect();
    let count = room.saturating_sub(1).min(limits.len());
    // From 10 µs, or from less where there is room for more than the bars above.
    let first = 3.min(limits.len() - count);
    let limits = &limits[first..first + count];
    let label = |&nanos: &u64| match nanos {
        ..=999_999 => format!("{}µs", nanos / 1000),
        1_000_000..=999_999_999 => format!("{}ms", nanos / 1_000_000),
        _ => format!("{}s", nanos / 1_000_000_000),
    };
    let mut bars: Vec<_> = limits.iter().map(|limit| (label(limit), 0)).chain([("more".to_owned(), 0)]).collect();
    for (late, runs) in buckets {
        let bar = limits.partition_point(|&limit| u128::from(limit) < late.as_nanos());
        bars[bar].1 += runs;
    }
    bars
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use corewheel::{Executor, ManualClock, Timer};

    use super::*;
    use crate::history::Reading;
    use crate::plain;

    /// Returns the frame of a timer on which, in the last of two seconds, 1,200 timers were armed, 200 reset, 100
    /// cancelled, and 100 fired.
    fn frame(shards: usize, columns: u16, rows: u16) -> String {
        let clock = ManualClock::new();
        let timer = Timer::builder().clock(clock.clone()).shards(shards).build().unwrap();
        let read = |answers| Reading { at: timer.now(), answers, stats: timer.stats() };
        let mut history = History::new(read(0), Duration::from_secs(10));
        clock.advance(Duration::from_secs(1));
        history.push(read(500));
        let arm = |millis| timer.schedule(Duration::from_millis(millis), || ()).unwrap();
        let pending: Vec<_> = (0..1100).map(|_| arm(60_000)).collect();
        pending[..200].iter().for_each(|handle| assert!(handle.reset(Duration::from_secs(90))));
        pending[..100].iter().for_each(|handle| assert!(handle.cancel()));
        (0..100).for_each(|_| drop(arm(500)));
        clock.advance(Duration::from_secs(1));
        history.push(read(7500));
        let (slow, census) = (slow_callback(), timer.census());
        plain::render(&View { history: &history, workers: 3, connections: 4000, slow, census }, (columns, rows))
            .unwrap()
    }

    /// Returns the report of a callback that took long.
    fn slow_callback() -> Option<SlowCallback> {
        let (sender, reports) = mpsc::channel();
        let report = move |slow| sender.send(slow).unwrap();
        let builder = Timer::builder().clock(ManualClock::new()).on_slow(Duration::ZERO, report);
        let timer = builder.executor(Executor::Inline).build().unwrap();
        timer.schedule(Duration::ZERO, || thread::sleep(Duration::from_millis(1))).unwrap();
        Some(reports.recv().unwrap())
    }

    /// Returns the words of the first line that has `word`, without borders.
    fn line(frame: &str, word: &str) -> Vec<String> {
        let line = frame.lines().find(|line| line.contains(word)).unwrap_or_else(|| panic!("no {word} in\n{frame}"));
        line.split(['│', ' ']).filter(|word| !word.is_empty()).map(String::from).collect()
    }

    #[test]
    fn a_frame_shows_what_has_happened() {
        let frame = frame(2, 80, 24);
        assert_eq!(frame.lines().count(), 24);
        assert!(frame.starts_with("corewheel, up 2 s: 1,000 pending; 2 drivers, 3 workers, 0 extra"), "{frame}");
        assert!(frame.contains("load: 4,000 connections, 7,000 requests a second"), "{frame}");
        assert!(frame.contains("\n0 running; pending: 1,000 tests::frame\n"), "{frame}");
        for (name, recent, mean, total) in [
            ("armed", "1,200", "600", "1,200"),
            ("reset", "200", "100", "200"),
            ("cancelled", "100", "50", "100"),
            ("fired", "100", "50", "100"),
        ] {
            assert_eq!(line(&frame, name)[..4], [name, recent, mean, total], "{frame}");
        }
        assert!(frame.contains("lateness of 2 s: 100 runs, p50 0 ns, p99 0 ns, max 0 ns"), "{frame}");
        assert_eq!(line(&frame, "10µs")[..3], ["10µs", "20µs", "50µs"], "{frame}");
        assert!(line(&frame, " 100 ").contains(&"100".to_owned()), "{frame}");
        assert!(frame.lines().last().unwrap().contains(" slow: "), "{frame}");
        let wide = super::tests::frame(2, 160, 24);
        assert!(wide.contains("top::frame::tests::slow_callback::{{closure}}"), "{wide}");
    }

    #[test]
    fn the_shards_of_a_frame_add_up() {
        let frame = frame(3, 100, 30);
        let shards: Vec<Vec<String>> = ["│0 ", "│1 ", "│2 "].map(|shard| line(&frame, shard)).into();
        let sum = |column: usize| -> u64 {
            shards.iter().map(|shard| shard[column].replace(',', "").parse::<u64>().expect("a number")).sum()
        };
        assert_eq!([1, 2, 3, 4, 5].map(sum), [1000, 1200, 200, 100, 100], "{frame}");
    }

    #[test]
    fn a_frame_fits_any_terminal() {
        for (columns, rows) in [(1, 1), (79, 24), (80, 23)] {
            let frame = frame(2, columns, rows);
            assert!(frame.starts_with('T') && !frame.contains("pending"), "{frame}");
        }
        let low = frame(64, 80, 24);
        assert!(low.contains("shards 0 to 1 of 64") && low.contains("10µs"), "{low}");
        let high = frame(64, 250, 100);
        assert!(high.contains("shards, a second") && high.contains("│63 ") && high.contains("10s"), "{high}");
    }

    #[test]
    fn each_bar_has_what_exceeds_the_one_before() {
        let micros = [9, 10, 11, 20, 400, 99_000, 5_000_000].map(|micros| (Duration::from_micros(micros), 1));
        let bars = bars(micros.into_iter(), 13);
        let occupied: Vec<_> =
            bars.iter().filter(|(_, runs)| *runs > 0).map(|(label, runs)| (&**label, *runs)).collect();
        assert_eq!((bars.len(), &*bars[11].0), (13, "50ms"));
        assert_eq!(occupied, [("10µs", 2), ("20µs", 2), ("500µs", 1), ("more", 2)]);
    }
}
