//! What other tools wrote of a boot, as a record: `systemd-analyze plot`, `systemctl show`, and the
//! kernel's messages with `initcall_debug`. They know units and functions, not who waits for what.

use serde_json::Value;

use super::record::{FORMAT, Head, Record, Unit, Unreadable};

/// Pixels of a second in the picture of `systemd-analyze plot`.
const PIXELS: f64 = 100.0;
/// More are not taken.
const UNITS_MAX: usize = 100_000;
/// Longer than any boot: 10^6 seconds.
const LATEST_NS: f64 = 1e15;
/// What `systemd-analyze plot` draws beside the units.
const PHASES: [&str; 5] = ["firmware", "loader", "kernel", "initrd", "systemd"];

/// What kinds there are, for an error.
pub const KINDS: &str = "a file of `blocklab boot record`, of `systemd-analyze plot` (SVG or \
    --json), of `systemctl show '*'`, or of `dmesg` with initcall_debug";

/// Read `text`; `None` when it is of no kind that is known here.
///
/// # Errors
/// When it is of a known kind, but has nothing of a boot.
pub fn parse(text: &str) -> Option<Result<Record, Unreadable>> {
    let begin = text.trim_start();
    let (kind, units) = if begin.starts_with("<?xml") || begin.starts_with("<svg") {
        ("systemd-analyze plot", of_picture(text))
    } else if begin.starts_with('[') && begin[1..].trim_start().starts_with('{') {
        ("systemd-analyze plot", of_json(begin))
    } else if text.lines().any(|line| line.starts_with("Id=")) {
        return Some(of_show(text));
    } else if text.lines().any(|line| line.contains("] initcall ")) {
        ("initcall_debug", of_messages(text))
    } else {
        return None;
    };
    let nothing = || Unreadable { line: 1, why: format!("{kind}, but no time in it") };
    Some(record(kind, units).ok_or_else(nothing))
}

/// A record of nothing but units, from the first one's begin to the last one's end.
fn record(kind: &str, units: Vec<Unit>) -> Option<Record> {
    let last = units.iter().max_by_key(|unit| unit.active_ns.unwrap_or(unit.activating_ns))?;
    let end_ns = last.active_ns.unwrap_or(last.activating_ns);
    let head = Head {
        format: FORMAT.into(),
        kernel: String::new(),
        until: last.unit.clone(),
        reached: true,
        incomplete: Some(format!("{kind} knows no processes")),
        end_ns,
        recorder: 0,
        init: 1,
        forks: 0,
        exits: 0,
        lost: 0,
    };
    Some(Record { units, ..Record::empty(head) })
}

/// What the guest's program makes of it, too.
fn of_show(text: &str) -> Result<Record, Unreadable> {
    let empty = record("systemctl show", vec![Unit::default()]).map(|one| one.head);
    let head = serde_json::to_string(&empty)
        .map_err(|why| Unreadable { line: 1, why: why.to_string() })?;
    let lines = guest::record::units::lines(text);
    let read = Record::parse(&format!("{head}\n{lines}"))?;
    let nothing = || Unreadable { line: 1, why: "systemctl show, but no unit with times".into() };
    let made = record("systemctl show", read.units).ok_or_else(nothing)?;
    Ok(Record { milestones: read.milestones, before_kernel: read.before_kernel, ..made })
}

fn unit(name: &str, from_ns: f64, to_ns: f64) -> Option<Unit> {
    let fits = |ns: f64| (0.0..LATEST_NS).contains(&ns).then_some(ns as u64);
    let (activating_ns, active_ns) = (fits(from_ns)?, fits(to_ns)?);
    (active_ns >= activating_ns).then(|| Unit {
        unit: name.into(),
        state: String::new(),
        activating_ns,
        active_ns: Some(active_ns),
        ..Unit::default()
    })
}

/// A line of the picture has a bar or a text; bars of a unit come before its name.
fn of_picture(text: &str) -> Vec<Unit> {
    let attribute = |line: &str, name: &str| -> Option<f64> {
        let (_, rest) = line.split_once(&format!(" {name}=\""))?;
        rest.split_once('"')?.0.parse().ok()
    };
    let (mut units, mut bar) = (Vec::new(), None);
    for line in text.lines().map(str::trim) {
        let is = |class: &str| line.starts_with(&format!("<rect class=\"{class}\""));
        if is("activating") || PHASES.iter().any(|phase| is(phase)) {
            let from = attribute(line, "x").zip(attribute(line, "width"));
            bar = from.map(|(x, width)| (x / PIXELS * 1e9, (x + width) / PIXELS * 1e9));
        } else if line.starts_with("<text") {
            let name = line.split_once('>').and_then(|(_, rest)| rest.split_once("</text>"));
            let Some(((from, to), (name, _))) = bar.take().zip(name) else { continue };
            // The time behind it is that of the bar.
            let name = name.split(" (").next().unwrap_or(name);
            units.extend(unit(name, from, to).filter(|_| units.len() < UNITS_MAX));
        }
    }
    units
}

fn of_json(text: &str) -> Vec<Unit> {
    let all: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    let us = |one: &Value, key: &str| one[key].as_f64().filter(|&us| us > 0.0);
    all.iter()
        .filter_map(|one| {
            let from = us(one, "activating").or(us(one, "activated"))?;
            unit(one["name"].as_str()?, from * 1e3, us(one, "activated")? * 1e3)
        })
        .take(UNITS_MAX)
        .collect()
}

/// `[    0.512345] initcall NAME+0x0/0x30 returned 0 after 1234 usecs`; before it there may be a
/// level or the name of a journal.
fn of_messages(text: &str) -> Vec<Unit> {
    text.lines()
        .filter_map(|line| {
            let (before, rest) = line.split_once("] initcall ")?;
            let at: f64 = before.rsplit_once('[')?.1.trim().parse().ok()?;
            let (name, rest) = rest.split_once(' ')?;
            let us: f64 = rest.split_once(" after ")?.1.split(' ').next()?.parse().ok()?;
            let name = name.split('+').next().unwrap_or(name);
            unit(&format!("initcall {name}"), (at * 1e9 - us * 1e3).max(0.0), at * 1e9)
        })
        .take(UNITS_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<(String, u64, Option<u64>)> {
        let units = parse(text).unwrap().unwrap().units;
        units.into_iter().map(|one| (one.unit, one.activating_ns, one.active_ns)).collect()
    }

    #[test]
    fn a_plot_is_read() {
        let svg = "<?xml version=\"1.0\"?>\n<svg width=\"9px\">\n  <rect class=\"box\" x=\"0\"/>\n \
            <text class=\"sec\" x=\"10.000\" y=\"-5.000\">0.1s</text>\n  <rect class=\"kernel\" \
            x=\"0.000\" y=\"0.000\" width=\"100.000\" height=\"19.0\" />\n  <text class=\"left\" \
            x=\"5.0\" y=\"14.0\">kernel</text>\n  <rect class=\"activating\" x=\"250.500\" \
            y=\"40.0\" width=\"10.000\" height=\"19.000\" />\n  <rect class=\"active\" \
            x=\"260.5\" y=\"40.0\" width=\"99.000\" height=\"19.0\" />\n  <text class=\"left\" \
            x=\"255.0\" y=\"54.000\">ssh.service (100ms)</text>\n</svg>\n";
        let expected = [
            ("kernel".to_string(), 0, Some(1_000_000_000)),
            ("ssh.service".to_string(), 2_505_000_000, Some(2_605_000_000)),
        ];
        assert_eq!(told(svg), expected);
        let json = "[ {\"name\":\"a.service\",\"activating\":20,\"activated\":30,\"time\":10},\
                    {\"name\":\"never\",\"activating\":0,\"activated\":0}]";
        assert_eq!(told(json), [("a.service".to_string(), 20_000, Some(30_000))]);
    }

    #[test]
    fn the_kernels_own_functions_are_read() {
        let dmesg = "[    0.000000] Linux version 6.1\n[    0.500000] calling  a_init+0x0/0x1 @ 1\n\
            [    0.512000] initcall a_init+0x0/0x1 returned 0 after 12000 usecs\n\
            kernel: [    0.600] initcall b [ext4] returned -19 after 0 usecs\n";
        let expected = [
            ("initcall a_init".to_string(), 500_000_000, Some(512_000_000)),
            ("initcall b".to_string(), 600_000_000, Some(600_000_000)),
        ];
        assert_eq!(told(dmesg), expected);
        assert_eq!(parse(dmesg).unwrap().unwrap().window_ns(), (0, 600_000_000));
    }

    #[test]
    fn what_systemctl_shows_is_read() {
        let show = "UserspaceTimestampMonotonic=5\n\nId=a.service\n\
            InactiveExitTimestampMonotonic=7\nActiveEnterTimestampMonotonic=9\nAfter=b.target\n\n\
            Id=b.target\nActiveEnterTimestampMonotonic=6\n";
        let record = parse(show).unwrap().unwrap();
        assert_eq!((record.units.len(), record.head.until.as_str()), (2, "a.service"));
        assert_eq!(record.at_ns("systemd"), Some(5000));
    }

    #[test]
    fn what_is_nothing_of_it_is_told() {
        assert_eq!(parse("{\"format\":1}"), None);
        assert_eq!(parse("notes"), None);
        for empty in ["<svg></svg>", "[{}]", "Id=x\n", "[ 1.0] initcall x"] {
            assert!(parse(empty).unwrap().is_err(), "{empty}");
        }
    }
}
