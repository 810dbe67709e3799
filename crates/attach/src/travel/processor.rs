//! Processor time: what the guest's kernel is told to charge for the code of a host, and what it
//! charged. The kernel's side is a change of its source ([`super::kernel`]); a kernel that is told
//! nothing charges nothing.

use serde::{Deserialize, Serialize};
use study::host::{Calls, Costs};

/// Where the kernel has what it charges.
const FOLDER: &str = "/sys/module/host/parameters";
/// The kernel's table of calls; what is beyond has the last entry's cost.
const CALLS: usize = 512;

/// Numbers of calls, and what each of them costs in nanoseconds.
type Kind = (&'static [usize], fn(&Calls) -> u64);

/// System calls of a 64-bit guest by number: Linux's `syscall_64.tbl`.
const KINDS: [Kind; 13] = [
    (&[0, 17, 19, 295, 327], |calls| calls.read.0.0),
    (&[1, 18, 20, 296, 328], |calls| calls.write.0.0),
    (&[8], |calls| calls.seek.0.0),
    (&[2, 85, 257, 437], |calls| calls.open.0.0),
    (&[3], |calls| calls.close.0.0),
    (&[5], |calls| calls.fstat.0.0),
    (&[4, 6, 21, 137, 262, 269, 332, 439], |calls| calls.stat.0.0),
    (&[84, 87, 263], |calls| calls.remove.0.0),
    (&[82, 83, 86, 88, 258, 264, 265, 266, 316], |calls| calls.rename.0.0),
    (&[78, 217], |calls| calls.list.0.0),
    (&[74, 75], |calls| calls.sync.0.0),
    (&[56, 57, 58, 435], |calls| calls.fork.0.0),
    (&[59, 322], |calls| calls.exec.0.0),
];

/// What the guest's kernel is told, in its own words.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Charges {
    /// Nanoseconds of each call, by number.
    calls: Vec<u64>,
    /// Nanoseconds of what the kernel's `enum host_cost` names, in its order.
    costs: Vec<u64>,
    cores: u32,
}

impl Charges {
    pub(super) fn of(costs: &Costs) -> Charges {
        let between = costs.call.between.map_or(0, |between| between.0.0);
        let mut calls = vec![between + costs.call.other.0.0; CALLS];
        for (numbers, cost) in KINDS {
            numbers.iter().for_each(|&number| calls[number] = between + cost(&costs.call));
        }
        let Costs { processor, call, copy, cache, request } = costs;
        let costs = [
            processor.context_switch,
            processor.page_fault,
            call.create,
            copy.to_program,
            copy.from_program,
            cache.found,
            cache.added,
            request.none,
            request.mq_deadline,
            request.kyber,
            request.bfq,
        ];
        let costs = costs.map(|cost| cost.0.0).into();
        Charges { calls, costs, cores: processor.cores }
    }

    /// Begin to charge; in the guest. Returns what was charged until then.
    pub(super) fn begin(&self) -> Result<u64, String> {
        let list = |values: &[u64]| {
            let words: Vec<String> = values.iter().map(u64::to_string).collect();
            words.join(",")
        };
        set("costs", &list(&self.costs))?;
        set("calls", &list(&self.calls))?;
        // Last of all: from here on time passes.
        set("cores", &self.cores.to_string())?;
        Ok(paid_ns())
    }
}

/// Code is free again.
pub(super) fn end() -> Result<(), String> {
    set("cores", "0")
}

/// Virtual time that was charged since the guest's boot.
pub(super) fn paid_ns() -> u64 {
    let text = std::fs::read_to_string(format!("{FOLDER}/paid")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

fn set(name: &str, value: &str) -> Result<(), String> {
    std::fs::write(format!("{FOLDER}/{name}"), value).map_err(|why| {
        format!(
            "this kernel cannot charge processor time ({FOLDER}/{name}: {why}); one that `blocklab \
             kernel build` makes today can: travel without --kernel"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs() -> Costs {
        study::host(study::library::hosts()[0].0).unwrap().unwrap().costs
    }

    #[test]
    fn every_kind_of_call_has_its_cost_at_its_numbers() {
        let costs = costs();
        let charges = Charges::of(&costs);
        let at = |number: libc::c_long| charges.calls[number as usize];
        let Calls { other, read, write, fstat, sync, rename, remove, exec, .. } = &costs.call;
        #[cfg(target_arch = "x86_64")]
        for (number, cost) in [
            (libc::SYS_pread64, read),
            (libc::SYS_writev, write),
            (libc::SYS_fdatasync, sync),
            (libc::SYS_mkdirat, rename),
            (libc::SYS_rmdir, remove),
            (libc::SYS_execve, exec),
            (libc::SYS_getpid, other),
            (libc::SYS_fstat, fstat),
        ] {
            assert_eq!(at(number), cost.0.0, "call {number}");
        }
        let numbers: Vec<usize> = KINDS.iter().flat_map(|(numbers, _)| *numbers).copied().collect();
        let distinct: std::collections::BTreeSet<usize> = numbers.iter().copied().collect();
        assert_eq!(distinct.len(), numbers.len(), "a call is of one kind");
    }

    /// The order of the costs is the kernel's.
    #[test]
    fn the_kernel_and_this_agree_on_what_comes_where() {
        let text = super::super::kernel::changed().find(|text| text.contains("enum host_cost"));
        let text = text.unwrap();
        let (_, names) = text.split_once("enum host_cost {").unwrap();
        let (names, _) = names.split_once('}').unwrap();
        let names: Vec<&str> = names.split(',').map(str::trim).collect();
        let costs = costs();
        let charges = Charges::of(&costs);
        assert_eq!(names.len(), charges.costs.len() + 1, "the last is their number");
        for (name, cost) in [
            ("HOST_SWITCH", costs.processor.context_switch),
            ("HOST_CREATE", costs.call.create),
            ("HOST_FROM_PROGRAM", costs.copy.from_program),
            ("HOST_ADDED", costs.cache.added),
            ("HOST_MQ_DEADLINE", costs.request.mq_deadline),
            ("HOST_BFQ", costs.request.bfq),
        ] {
            let index = names.iter().position(|known| *known == name).unwrap();
            assert_eq!(charges.costs[index], cost.0.0, "{name}");
        }
        // Longer than a page the kernel takes no list.
        let longest = charges.calls.iter().map(|_| "999999,".len()).sum::<usize>();
        assert!(longest < 4096, "{longest}");
    }
}
