//! What other tools wrote of a boot, as a record: `systemd-analyze plot`, `systemctl show`, and the
//! kernel's messages with `initcall_debug`. They know units and functions, not who waits for what.

use serde_json::Value;

use super::record::{BeforeKernel, FORMAT, Head, Milestone, Record, Unit, Unreadable};

/// Pixels of a second in the picture of `systemd-analyze plot`, where its axis does not say.
const PIXELS: f64 = 100.0;
/// More are not taken.
const UNITS_MAX: usize = 100_000;
/// Longer than any boot: 10^6 seconds.
const LATEST_NS: f64 = 1e15;
/// What `systemd-analyze plot` draws beside the units, but for systemd itself.
const PHASES: [&str; 4] = ["firmware", "loader", "kernel", "initrd"];
/// Where a boot ends: what is active later was started by a timer, or by somebody.
const ENDS: [&str; 2] = ["graphical.target", "multi-user.target"];

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
        return Some(of_picture(text));
    } else if begin.starts_with('[') && begin[1..].trim_start().starts_with('{') {
        ("systemd-analyze plot", of_json(begin))
    } else if text.lines().any(|line| line.starts_with("Id=")) {
        return Some(of_show(text));
    } else if text.lines().any(|line| initcall(line).is_some()) {
        ("initcall_debug", of_messages(text))
    } else {
        return None;
    };
    Some(record(kind, units).ok_or_else(|| without_times(kind)))
}

fn without_times(kind: &str) -> Unreadable {
    Unreadable { line: 1, why: format!("{kind}, but no time in it") }
}

/// A record of nothing but units, until the boot's target was reached, or the last unit.
fn record(kind: &str, mut units: Vec<Unit>) -> Option<Record> {
    let reached =
        |name: &&str| units.iter().find(|unit| unit.unit == **name && unit.active_ns.is_some());
    let last = ENDS
        .iter()
        .find_map(reached)
        .or_else(|| units.iter().max_by_key(|unit| unit.active_ns.unwrap_or(unit.activating_ns)))?;
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
    units.retain(|unit| unit.activating_ns <= end_ns);
    Some(Record { units, ..Record::empty(head) })
}

fn milestone(name: &str, at_ns: u64) -> Milestone {
    Milestone { milestone: name.into(), at_ns }
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
    let mut milestones = read.milestones;
    let systemd = milestones.iter().find(|one| one.milestone == "systemd").map(|one| one.at_ns);
    milestones.extend(systemd.map(|at_ns| milestone("init", at_ns)));
    Ok(Record { milestones, before_kernel: read.before_kernel, ..made })
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

/// A line of the picture has a bar or a text; bars of a unit come before its name. Firmware and
/// loader lie before the kernel's start, which is 0.
fn of_picture(text: &str) -> Result<Record, Unreadable> {
    if text.contains("systemd-bootchart") {
        let why = format!("a picture of systemd-bootchart, which is not read; expected {KINDS}");
        return Err(Unreadable { line: 1, why });
    }
    let pixels = pixels(text);
    let (mut units, mut milestones) = (Vec::new(), Vec::new());
    let mut before = BeforeKernel { firmware_ns: 0, loader_ns: 0 };
    let (mut bar, mut active) = (None, None);
    for line in text.lines().map(str::trim) {
        let is = |class: &str| line.starts_with(&format!("<rect class=\"{class}\""));
        let drawn = || {
            let (x, width) = attribute(line, "x").zip(attribute(line, "width"))?;
            Some((x / pixels * 1e9, (x + width) / pixels * 1e9))
        };
        if is("activating") || PHASES.iter().any(|phase| is(phase)) {
            bar = drawn();
        } else if is("active") {
            active = drawn();
        } else if line.starts_with("<text") {
            let name = line.split_once('>').and_then(|(_, rest)| rest.split_once("</text>"));
            let (bar, active) = (bar.take(), active.take());
            let Some((name, _)) = name else { continue };
            // The time behind it is that of the bar.
            let name = name.split(" (").next().unwrap_or(name);
            let length = |(from, to): (f64, f64)| (to - from).clamp(0.0, LATEST_NS) as u64;
            match (name, bar.or(active)) {
                ("firmware", Some(bar)) => before.firmware_ns = length(bar),
                ("loader", Some(bar)) => before.loader_ns = length(bar),
                ("systemd", Some((from, _))) => milestones.push(milestone("init", from as u64)),
                _ => {
                    let found = bar.and_then(|(from, to)| unit(name, from, to));
                    if let (Some(initrd), "initrd") = (&found, name) {
                        milestones.push(milestone("initramfs", initrd.activating_ns));
                    }
                    units.extend(found.filter(|_| units.len() < UNITS_MAX));
                }
            }
        }
    }
    let kind = "systemd-analyze plot";
    let made = record(kind, units).ok_or_else(|| without_times(kind))?;
    let before_kernel = (before.firmware_ns + before.loader_ns > 0).then_some(before);
    Ok(Record { milestones, before_kernel, ..made })
}

/// Pixels of a second, by the last time on the axis: `--scale-svg` changes them.
fn pixels(text: &str) -> f64 {
    let times = text.lines().map(str::trim).filter(|line| line.starts_with("<text class=\"sec\""));
    let scale = |line: &str| {
        let told: f64 = line.split_once('>')?.1.split_once("s</text>")?.0.trim().parse().ok()?;
        let pixels = attribute(line, "x")? / told;
        (told > 0.0 && pixels.is_finite() && pixels > 0.0).then_some((told, pixels))
    };
    let last = times.filter_map(scale).max_by(|one, other| one.0.total_cmp(&other.0));
    last.map_or(PIXELS, |(_, pixels)| pixels)
}

fn attribute(line: &str, name: &str) -> Option<f64> {
    let (_, rest) = line.split_once(&format!(" {name}=\""))?;
    rest.split_once('"')?.0.parse().ok()
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
/// level or the name of a journal, and in between the caller, or the names of a host and `kernel:`.
fn of_messages(text: &str) -> Vec<Unit> {
    text.lines()
        .filter_map(|line| {
            let (at, rest) = initcall(line)?;
            let (name, rest) = rest.split_once(' ')?;
            let us: f64 = rest.split_once(" after ")?.1.split(' ').next()?.parse().ok()?;
            let name = name.split('+').next().unwrap_or(name);
            unit(&format!("initcall {name}"), (at * 1e9 - us * 1e3).max(0.0), at * 1e9)
        })
        .take(UNITS_MAX)
        .collect()
}

/// The time of such a line, in seconds, and what is behind the word.
fn initcall(line: &str) -> Option<(f64, &str)> {
    let (before, rest) = line.split_once(" initcall ")?;
    let mut brackets = before.split('[').skip(1).filter_map(|part| part.split_once(']'));
    Some((brackets.find_map(|(inside, _)| inside.trim().parse().ok())?, rest))
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

    /// Firmware 5 s, loader 2 s, kernel 2 s, initrd 3 s, and systemd from then on, at twice the
    /// usual scale.
    #[test]
    fn what_comes_before_systemd_is_not_its_own() {
        let bar = |class: &str, from: f64, to: f64| {
            let (x, width) = (from * 200.0, (to - from) * 200.0);
            format!("<rect class=\"{class}\" x=\"{x:.3}\" y=\"0\" width=\"{width:.3}\" />\n")
        };
        let name = |text: &str| format!("<text class=\"left\" x=\"0\" y=\"1\">{text}</text>\n");
        let svg = [
            "<svg>\n<text class=\"sec\" x=\"-1400.000\" y=\"-5\">-7.0s</text>\n".into(),
            "<text class=\"sec\" x=\"200.000\" y=\"-5\">1.0s</text>\n".into(),
            bar("firmware", -7.0, -2.0) + &name("firmware"),
            bar("loader", -2.0, 0.0) + &name("loader"),
            bar("kernel", 0.0, 2.0) + &name("kernel"),
            bar("initrd", 2.0, 5.0) + &name("initrd"),
            bar("active", 5.0, 10.0) + &bar("security", 5.0, 5.1) + &name("systemd"),
            bar("activating", 6.0, 7.0) + &bar("active", 7.0, 10.0) + &name("a.service (1s)"),
        ];
        let record = parse(&svg.concat()).unwrap().unwrap();
        let second = 1_000_000_000;
        let before = record.before_kernel.unwrap();
        assert_eq!((before.firmware_ns, before.loader_ns), (5 * second, 2 * second));
        assert_eq!(record.at_ns("initramfs"), Some(2 * second));
        assert_eq!(record.window_ns(), (5 * second, 7 * second));
        let links = super::super::units::chain(&record);
        let told: Vec<_> =
            links.iter().map(|link| (link.unit.as_str(), link.from_ns, link.to_ns)).collect();
        let expected = [("systemd", 5 * second, 6 * second), ("a.service", 6 * second, 7 * second)];
        assert_eq!(told, expected);
        // Where nothing says when it began, nothing is charged to it.
        let without = svg.concat().replace("systemd", "other");
        let links = super::super::units::chain(&parse(&without).unwrap().unwrap());
        assert_eq!(links[0].unit, "a.service");
    }

    #[test]
    fn what_starts_days_later_is_no_part_of_the_boot() {
        let unit = |name: &str, from_s: u64, active_s: u64| {
            format!(
                "Id={name}\nInactiveExitTimestampMonotonic={}\n\
                 ActiveEnterTimestampMonotonic={}\n\n",
                from_s * 1_000_000,
                active_s * 1_000_000
            )
        };
        let show = unit("basic.target", 5, 5)
            + &unit("multi-user.target", 9, 9)
            + &unit("apt-daily.service", 259_200, 0);
        let record = parse(&show).unwrap().unwrap();
        assert_eq!(
            (record.head.until.as_str(), record.head.end_ns),
            ("multi-user.target", 9_000_000_000)
        );
        assert_eq!(record.units.len(), 2);
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
        for line in ["<6>[    0.512000][    T1] initcall", "[    0.512000] myhost kernel: initcall"]
        {
            let line = format!("{line} a_init+0x0/0x1 returned 0 after 12000 usecs\n");
            assert_eq!(told(&line), expected[..1], "{line}");
        }
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
        let other =
            parse("<?xml version=\"1.0\"?>\n<!-- This is a systemd-bootchart SVG file. -->");
        assert!(other.unwrap().unwrap_err().why.contains("systemd-bootchart, which is not read"));
        for empty in ["<svg></svg>", "[{}]", "Id=x\n", "[ 1.0] initcall x"] {
            assert!(parse(empty).unwrap().is_err(), "{empty}");
        }
    }
}
