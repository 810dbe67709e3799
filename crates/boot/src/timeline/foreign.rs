//! What other tools wrote of a boot, as a record: `systemd-analyze plot`, `systemctl show`, and the
//! kernel's messages with `initcall_debug`. They know units and functions, not who waits for what.

use std::collections::BTreeMap;

use serde_json::Value;

use super::record::{BeforeKernel, FORMAT, Head, Milestone, Record, Unit, Unreadable};

/// Pixels of a second in the picture of `systemd-analyze plot`, where it has no axis.
const PIXELS: f64 = 100.0;
/// More are not taken.
const UNITS_MAX: usize = 100_000;
/// Longer than any boot: 10^6 seconds.
const LATEST_NS: f64 = 1e15;
/// Where a boot ends, the first that was reached: a machine goes on to start units for days.
const ENDS: [&str; 3] = ["graphical.target", "multi-user.target", "default.target"];
/// What stands in the SVG of `systemd-bootchart`.
const BOOTCHART: &str = "systemd-bootchart SVG file";

/// What kinds there are, for an error.
pub const KINDS: &str = "a file of `blocklab boot record`, of `systemd-analyze plot` (SVG or \
    --json), of `systemctl show '*'`, or of `dmesg` with initcall_debug";

/// What was found.
#[derive(Default)]
struct Found {
    units: Vec<Unit>,
    milestones: Vec<Milestone>,
    before_kernel: Option<BeforeKernel>,
}

/// Read `text`; `None` when it is of no kind that is known here.
///
/// # Errors
/// When it is of a known kind, but has nothing of a boot, or of a kind that is known and not read.
pub fn parse(text: &str) -> Option<Result<Record, Unreadable>> {
    let begin = text.trim_start();
    let of_units = |units| Found { units, ..Found::default() };
    let (kind, found) = if begin.starts_with("<?xml") || begin.starts_with("<svg") {
        if text.contains(BOOTCHART) {
            let why = "a picture of systemd-bootchart: bootcharts are not read".into();
            return Some(Err(Unreadable { line: 1, why }));
        }
        ("systemd-analyze plot", of_picture(text))
    } else if begin.starts_with('[') && begin[1..].trim_start().starts_with('{') {
        ("systemd-analyze plot", of_units(of_json(begin)))
    } else if text.lines().any(|line| line.starts_with("Id=")) {
        return Some(of_show(text));
    } else if text.lines().any(|line| initcall(line).is_some()) {
        ("initcall_debug", of_units(of_messages(text)))
    } else {
        return None;
    };
    let nothing = || Unreadable { line: 1, why: format!("{kind}, but no time in it") };
    Some(record(kind, found, None).ok_or_else(nothing))
}

/// A record of nothing but units, from the first one's begin until `until` was reached, or the last
/// of them.
fn record(kind: &str, found: Found, until: Option<&str>) -> Option<Record> {
    let reached_ns = |unit: &Unit| unit.active_ns.unwrap_or(unit.activating_ns);
    let last = (found.units.iter().find(|unit| Some(unit.unit.as_str()) == until))
        .or_else(|| found.units.iter().max_by_key(|unit| reached_ns(unit)))?;
    let head = Head {
        format: FORMAT.into(),
        kernel: String::new(),
        until: last.unit.clone(),
        reached: true,
        incomplete: Some(format!("{kind} knows no processes")),
        end_ns: reached_ns(last),
        recorder: 0,
        init: 1,
        forks: 0,
        exits: 0,
        lost: 0,
    };
    let Found { units, mut milestones, before_kernel } = found;
    milestones.retain(|one| one.at_ns <= head.end_ns);
    milestones.sort_by_key(|one| one.at_ns);
    Some(Record { units, milestones, before_kernel, ..Record::empty(head) })
}

/// What the guest's program makes of it, too.
fn of_show(text: &str) -> Result<Record, Unreadable> {
    let one = Found { units: vec![Unit::default()], ..Found::default() };
    let empty = record("systemctl show", one, None).map(|one| one.head);
    let head = serde_json::to_string(&empty)
        .map_err(|why| Unreadable { line: 1, why: why.to_string() })?;
    let lines = guest::record::units::lines(text);
    let read = Record::parse(&format!("{head}\n{lines}"))?;
    let process_1 = read.at_ns("systemd");
    let Record { mut units, mut milestones, before_kernel, .. } = read;
    milestones.extend(process_1.map(|at_ns| Milestone { milestone: "init".into(), at_ns }));
    // When systemd says of itself that it had started all; in microseconds.
    let finish_ns = text
        .lines()
        .find_map(|line| line.strip_prefix("FinishTimestampMonotonic=")?.parse::<u64>().ok())
        .and_then(|us| us.checked_mul(1000).filter(|&ns| ns > 0));
    let in_boot = |at: &u64| finish_ns.is_none_or(|finish| *at <= finish);
    let reached_ns = |name: &&str| {
        let unit = units.iter().find(|unit| unit.unit == **name)?;
        unit.active_ns.filter(in_boot)
    };
    let until = ENDS.into_iter().find(|name| reached_ns(name).is_some());
    if let Some(end_ns) = until.as_ref().and_then(reached_ns).or(finish_ns) {
        units.retain(|unit| unit.activating_ns <= end_ns);
    }
    let nothing = || Unreadable { line: 1, why: "systemctl show, but no unit with times".into() };
    let found = Found { units, milestones, before_kernel };
    record("systemctl show", found, until).ok_or_else(nothing)
}

fn ns(from: f64) -> Option<u64> {
    (0.0..LATEST_NS).contains(&from).then_some(from as u64)
}

fn unit(name: &str, from_ns: f64, to_ns: f64) -> Option<Unit> {
    let (activating_ns, active_ns) = (ns(from_ns)?, ns(to_ns)?);
    (active_ns >= activating_ns).then(|| Unit {
        unit: name.into(),
        state: String::new(),
        activating_ns,
        active_ns: Some(active_ns),
        ..Unit::default()
    })
}

/// A number in a tag.
fn attribute(line: &str, name: &str) -> Option<f64> {
    let (_, rest) = line.split_once(&format!(" {name}=\""))?;
    rest.split_once('"')?.0.parse().ok()
}

/// What stands between a text's tags.
fn content(line: &str) -> Option<&str> {
    let (_, rest) = line.strip_prefix("<text")?.split_once('>')?;
    Some(rest.split_once("</text>")?.0)
}

/// By the axis, whose texts name seconds: `--scale-svg` makes it longer.
fn pixels_of_a_second(text: &str) -> f64 {
    let marks = text.lines().map(str::trim).filter_map(|line| {
        let is_mark = line.starts_with("<text class=\"sec\"");
        let seconds: f64 = content(line).filter(|_| is_mark)?.strip_suffix('s')?.parse().ok()?;
        Some((seconds, attribute(line, "x")? / seconds))
    });
    marks
        .filter(|(_, pixels)| pixels.is_finite() && *pixels > 0.0)
        // The farthest is rounded least.
        .max_by(|(a, _), (b, _)| a.abs().total_cmp(&b.abs()))
        .map_or(PIXELS, |(_, pixels)| pixels)
}

/// A line of the picture has a bar or a text; bars come before the name of what they are of. Time 0
/// is the kernel's start.
fn of_picture(text: &str) -> Found {
    let ns_of_pixel = 1e9 / pixels_of_a_second(text);
    let mut found = Found::default();
    let (mut firmware_ns, mut loader_ns) = (None, None);
    let mut bars: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("<rect class=\"") {
            let class = rest.split('"').next().unwrap_or_default();
            let from = attribute(line, "x").zip(attribute(line, "width"));
            bars.extend(from.map(|(x, width)| (class, (x * ns_of_pixel, width * ns_of_pixel))));
            continue;
        }
        let Some(name) = content(line) else { continue };
        let bars = std::mem::take(&mut bars);
        let began_ns = |class: &str| ns(bars.get(class)?.0);
        let took_ns = |class: &str| ns(bars.get(class)?.1);
        let milestone = |name: &str, at_ns| Milestone { milestone: name.into(), at_ns };
        // The time behind it is that of the bar.
        match name.split(" (").next().unwrap_or(name) {
            "firmware" => firmware_ns = took_ns("firmware"),
            "loader" => loader_ns = took_ns("loader"),
            "initrd" => {
                found.milestones.extend(began_ns("initrd").map(|at| milestone("initramfs", at)));
            }
            "systemd" => {
                found.milestones.extend(began_ns("active").map(|at| milestone("init", at)));
            }
            // All units have a type in their names; the legend has bars, too.
            name if name.contains('.') && found.units.len() < UNITS_MAX => {
                let bar = bars.get("activating");
                found.units.extend(bar.and_then(|(from, took)| unit(name, *from, from + took)));
            }
            _ => {}
        }
    }
    if firmware_ns.or(loader_ns).is_some() {
        let [firmware_ns, loader_ns] = [firmware_ns, loader_ns].map(Option::unwrap_or_default);
        found.before_kernel = Some(BeforeKernel { firmware_ns, loader_ns });
    }
    found
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

/// Seconds, and what stands behind `initcall`, of a line such as
/// `[    0.512345] initcall NAME+0x0/0x30 returned 0 after 1234 usecs`. Before it there may be a
/// level or the name of a journal, and behind the time a caller, or a machine's name.
fn initcall(line: &str) -> Option<(f64, &str)> {
    let (at, rest) = line.match_indices('[').find_map(|(open, _)| {
        let (inside, rest) = line[open + 1..].split_once(']')?;
        // Numbers of processes have no point.
        let at: f64 = inside.trim().parse().ok().filter(|_| inside.contains('.'))?;
        Some((at, rest))
    })?;
    Some((at, rest.split_once(" initcall ")?.1))
}

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

#[cfg(test)]
mod tests {
    use super::super::units;
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
        let expected = [("ssh.service".to_string(), 2_505_000_000, Some(2_605_000_000))];
        assert_eq!(told(svg), expected);
        let json = "[ {\"name\":\"a.service\",\"activating\":20,\"activated\":30,\"time\":10},\
                    {\"name\":\"never\",\"activating\":0,\"activated\":0}]";
        assert_eq!(told(json), [("a.service".to_string(), 20_000, Some(30_000))]);
    }

    /// A picture with all phases; a second has so many pixels.
    fn picture(pixels: f64) -> String {
        let mut svg = "<?xml version=\"1.0\"?>\n<svg>\n".to_string();
        for second in [-7.0, 0.0, 10.0] {
            let x = second * pixels;
            svg +=
                &format!("  <text class=\"sec\" x=\"{x:.3}\" y=\"-5.000\" >{second:.1}s</text>\n");
        }
        for (name, bars) in [
            ("firmware", &[("firmware", -7.0, 5.0)][..]),
            ("loader", &[("loader", -2.0, 2.0)]),
            ("kernel", &[("kernel", 0.0, 2.0)]),
            ("initrd", &[("initrd", 2.0, 3.0), ("generators", 2.5, 0.1)]),
            ("systemd", &[("active", 5.0, 5.0), ("unitsload", 5.2, 0.1)]),
            ("ssh.service (1.000s)", &[("activating", 6.0, 1.0), ("active", 7.0, 3.0)]),
            // Of the legend.
            ("Activating", &[("activating", 0.0, 0.3)]),
        ] {
            for (class, from, took) in bars {
                let (x, width) = (from * pixels, took * pixels);
                svg += &format!("<rect class=\"{class}\" x=\"{x:.3}\" width=\"{width:.3}\" />\n");
            }
            svg += &format!("<text class=\"left\" x=\"5.000\" y=\"14.000\">{name}</text>\n");
        }
        svg + "</svg>\n"
    }

    #[test]
    fn a_plot_begins_with_process_1_and_tells_what_was_before() {
        let record = parse(&picture(100.0)).unwrap().unwrap();
        let second = 1_000_000_000;
        let before = record.before_kernel.unwrap();
        assert_eq!((before.firmware_ns, before.loader_ns), (5 * second, 2 * second));
        assert_eq!(record.window_ns(), (5 * second, 7 * second));
        assert_eq!(record.at_ns("initramfs"), Some(2 * second));
        assert_eq!((record.units.len(), record.head.until.as_str()), (1, "ssh.service"));
        let links: Vec<_> = units::chain(&record)
            .into_iter()
            .map(|link| (link.unit, link.from_ns / second, link.to_ns / second))
            .collect();
        assert_eq!(links, [("systemd".into(), 5, 6), ("ssh.service".into(), 6, 7)]);
    }

    #[test]
    fn a_plot_of_any_scale_is_read_by_its_axis() {
        let [usual, twice] = [100.0, 200.0].map(|pixels| parse(&picture(pixels)).unwrap());
        assert_eq!(usual.unwrap(), twice.unwrap());
    }

    #[test]
    fn systemd_is_no_link_where_nobody_knows_when_it_began() {
        let dmesg = "[    0.512000] initcall a_init+0x0/0x1 returned 0 after 12000 usecs\n";
        let links = units::chain(&parse(dmesg).unwrap().unwrap());
        let names: Vec<&str> = links.iter().map(|link| link.unit.as_str()).collect();
        assert_eq!(names, ["initcall a_init"]);
    }

    #[test]
    fn the_kernels_own_functions_are_read() {
        let dmesg = "[    0.000000] Linux version 6.1\n[    0.500000] calling  a_init+0x0/0x1 @ 1\n\
            [    0.512000] initcall a_init+0x0/0x1 returned 0 after 12000 usecs\n\
            kernel[1]: [    0.600] initcall b [ext4] returned -19 after 0 usecs\n\
            [    0.512000][    T1] initcall c+0x0/0x1 returned 0 after 12000 usecs\n\
            [    0.512000] myhost kernel: initcall d+0x0/0x1 returned 0 after 12000 usecs\n";
        let expected = [
            ("initcall a_init".to_string(), 500_000_000, Some(512_000_000)),
            ("initcall b".to_string(), 600_000_000, Some(600_000_000)),
            ("initcall c".to_string(), 500_000_000, Some(512_000_000)),
            ("initcall d".to_string(), 500_000_000, Some(512_000_000)),
        ];
        for (line, expected) in dmesg.lines().skip(2).zip(&expected) {
            assert_eq!(&told(line), std::slice::from_ref(expected), "{line}");
        }
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
        assert_eq!((record.at_ns("systemd"), record.window_ns()), (Some(5000), (5000, 9000)));
    }

    #[test]
    fn what_systemctl_shows_ends_where_the_boot_did() {
        let show = |name: &str, began_s: u64, active_s: u64| {
            format!(
                "Id={name}\nInactiveExitTimestampMonotonic={began_s}000000\n\
                 ActiveEnterTimestampMonotonic={active_s}000000\n\n"
            )
        };
        let boot = show("basic.target", 5, 5)
            + &show("multi-user.target", 9, 9)
            + &show("a.service", 8, 10)
            + &show("apt-daily.service", 259_200, 0);
        let end = |text: &str| {
            let record = parse(text).unwrap().unwrap();
            (record.head.until, record.head.end_ns / 1_000_000_000, record.units.len())
        };
        assert_eq!(end(&boot), ("multi-user.target".into(), 9, 3));
        // One that was reached by hand, a day later, is not the boot's.
        let later = boot.clone() + &show("graphical.target", 86_400, 86_400);
        let finish = "FinishTimestampMonotonic=11000000\n\n".to_string();
        assert_eq!(end(&(finish.clone() + &later)), ("multi-user.target".into(), 9, 3));
        assert_eq!(end(&later).0, "graphical.target");
        let other = boot.replace("multi-user", "kiosk");
        assert_eq!(end(&(finish + &other)), ("a.service".into(), 10, 3));
        assert_eq!(end(&other).0, "apt-daily.service");
    }

    #[test]
    fn bootcharts_are_named_as_not_read() {
        let svg = "<?xml version=\"1.0\"?>\n<svg>\n\
            <!-- This file is a systemd-bootchart SVG file. -->\n</svg>\n";
        let why = parse(svg).unwrap().unwrap_err().why;
        assert_eq!(why, "a picture of systemd-bootchart: bootcharts are not read");
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
