//! `age`: what no program touched in the last seconds leaves, by the kernel's generations of pages.
//!
//! Linux, `Documentation/admin-guide/mm/multigen_lru.rst`. When the kernel ages, what was touched
//! comes into the youngest generation, and another one begins; the two youngest cannot be evicted.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::mount::{MountFlags, mount};

use super::{Page, Policy};

const ENABLED: &str = "/sys/kernel/mm/lru_gen/enabled";
const DEBUG: &str = "/sys/kernel/debug";
const GENERATIONS: &str = "/sys/kernel/debug/lru_gen";
/// How long programs are watched, if it is not said.
const SECONDS: u64 = 10;
/// Longest time that makes sense.
const SECONDS_MAX: u64 = 3600;
/// How much swap is preferred to dropping files: all.
const SWAPPINESS: u32 = 200;

struct Age(u64);

pub(super) fn make(argument: Option<&str>) -> Result<Box<dyn Policy>, String> {
    let seconds = argument.map_or(Ok(SECONDS), str::parse);
    match seconds.ok().filter(|seconds| (1..=SECONDS_MAX).contains(seconds)) {
        Some(seconds) => Ok(Box::new(Age(seconds))),
        None => Err(format!("expected seconds from 1 to {SECONDS_MAX}")),
    }
}

impl Policy for Age {
    fn leaves(&self, _: &Page) -> bool {
        false
    }

    fn watches(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.0))
    }
}

/// The generations of a control group on a node.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Generations {
    group: u64,
    node: u64,
    /// Number and pages of each, the oldest first.
    all: Vec<(u64, u64)>,
}

impl Generations {
    fn youngest(&self) -> u64 {
        self.all.last().map_or(0, |(number, _)| *number)
    }

    /// What has the kernel bring what was touched into the youngest one, and begin another.
    fn age(&self) -> String {
        format!("+ {} {} {} 1 1", self.group, self.node, self.youngest())
    }

    /// What has it evict all but the two youngest, and how many pages these are.
    fn evict(&self) -> Option<(String, u64)> {
        let last = self.youngest().checked_sub(2)?;
        let old = self.all.iter().filter(|(number, _)| *number <= last);
        let pages: u64 = old.map(|(_, pages)| pages).sum();
        let order = format!("- {} {} {last} {SWAPPINESS}", self.group, self.node);
        (pages > 0).then_some((order, pages))
    }
}

/// From now on it is known what is touched.
pub(super) fn begin() -> Result<(), String> {
    fs::write(ENABLED, "y").map_err(|why| {
        format!("{ENABLED}: {why}; expected root, and a kernel with CONFIG_LRU_GEN")
    })?;
    if !Path::new(GENERATIONS).exists() {
        mount("debugfs", DEBUG, "debugfs", MountFlags::empty(), None)
            .map_err(|why| format!("{DEBUG}: {why}"))?;
    }
    age()
}

/// What was not touched since leaves, while programs stand still; how many pages.
pub(super) fn evict() -> Result<u64, String> {
    age()?;
    tell(read()?.iter().filter_map(Generations::evict), |order| fs::write(GENERATIONS, order))
}

fn age() -> Result<(), String> {
    let orders = read()?;
    let orders = orders.iter().map(|generations| (generations.age(), 0));
    tell(orders, |order| fs::write(GENERATIONS, order)).map(drop)
}

/// Give the kernel orders, each with its pages; how many pages are those that it took. It refuses
/// the order for a group that was removed since it told of it; all others have their turn.
fn tell(
    orders: impl Iterator<Item = (String, u64)>,
    mut give: impl FnMut(&str) -> io::Result<()>,
) -> Result<u64, String> {
    let (mut taken, mut taken_pages, mut refused) = (0, 0, None);
    for (order, pages) in orders {
        let told = |why| format!("{GENERATIONS}: `{order}`: {why}");
        match give(&order) {
            Ok(()) => (taken, taken_pages) = (taken + 1, taken_pages + pages),
            Err(why) if why.raw_os_error() == Some(libc::EINVAL) => refused = Some(told(why)),
            Err(why) => return Err(told(why)),
        }
    }
    // One that takes none of them is another kernel.
    refused.filter(|_| taken == 0).map_or(Ok(taken_pages), Err)
}

fn read() -> Result<Vec<Generations>, String> {
    let text = fs::read_to_string(GENERATIONS).map_err(|why| format!("{GENERATIONS}: {why}"))?;
    Ok(parse(&text))
}

/// Those of all groups but the root's, whose memory is that of no program alone, and but those that
/// were removed: they keep their memory for a while, and have number 0.
fn parse(text: &str) -> Vec<Generations> {
    let mut found: Vec<Generations> = Vec::new();
    let mut group = None;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        match (first, group) {
            ("memcg", _) => {
                let id = number();
                group = id
                    .filter(|id| *id != 0)
                    .filter(|_| words.next().is_some_and(|path| path != "/"));
            }
            ("node", Some(group)) => {
                let node = number().unwrap_or(0);
                found.push(Generations { group, node, all: Vec::new() });
            }
            (first, Some(_)) => {
                // Its number, its age, pages of programs, pages of files.
                let (_, anonymous, files) = (number(), number(), number());
                let pages = anonymous.unwrap_or(0) + files.unwrap_or(0);
                if let (Some(last), Ok(number)) = (found.last_mut(), first.parse()) {
                    last.all.push((number, pages));
                }
            }
            _ => {}
        }
    }
    found.retain(|generations| !generations.all.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_are_told_and_the_old_ones_leave() {
        let text = "memcg     1 /\n node     0\n          0      99     7     8\n\
                    memcg    23 /program\n node     0\n          4      9500      30000       12\n\
                    \x20         5       400          0        3\n\
                    \x20         6       300       5120        0\n\
                    \x20         7         0          0        0\nmemcg    24 /empty\n";
        let found = parse(text);
        let all = vec![(4, 30012), (5, 3), (6, 5120), (7, 0)];
        assert_eq!(found, [Generations { group: 23, node: 0, all }]);
        assert_eq!(found[0].age(), "+ 23 0 7 1 1");
        assert_eq!(found[0].evict(), Some(("- 23 0 5 200".to_string(), 30015)));
        // There is nothing but the two youngest.
        let young = Generations { all: vec![(1, 5), (2, 5)], ..found[0].clone() };
        assert_eq!(young.evict(), None);
        let none = Generations { all: vec![(0, 5), (1, 5)], ..young };
        assert_eq!(none.evict(), None);
        assert!(parse("").is_empty());
    }

    #[test]
    fn a_group_that_was_removed_keeps_no_other_from_leaving() {
        let text = "memcg     0 /gone\n node     0\n          0      99     7     8\n\
                    memcg    23 /program\n node     0\n          4      9500      3       12\n";
        let found = parse(text);
        assert_eq!(found, [Generations { group: 23, node: 0, all: vec![(4, 15)] }]);
        // One that is removed between question and order.
        let orders = || ["a", "b", "c"].map(|order| (order.to_string(), 5)).into_iter();
        let refusing = |refused: &'static str, why: i32| {
            let mut given = String::new();
            let told = tell(orders(), |order| {
                given.push_str(order);
                if refused.contains(order) {
                    Err(io::Error::from_raw_os_error(why))
                } else {
                    Ok(())
                }
            });
            (told.map_err(|why| why.contains("lru_gen: `")), given)
        };
        assert_eq!(refusing("a", libc::EINVAL), (Ok(10), "abc".into()));
        assert_eq!(refusing("abc", libc::EINVAL), (Err(true), "abc".into()));
        assert_eq!(refusing("b", libc::EACCES), (Err(true), "ab".into()));
        assert_eq!(tell(std::iter::empty(), |_| Ok(())), Ok(0));
    }
}
