//! What is changed in the kernel's source. A change is made wholly or not at all, where the source
//! has all the lines that it is about.

use std::path::Path;

/// A change, as few lines as will do.
pub(super) struct Change {
    /// What a kernel without it cannot do; `None` where those that do not have the lines do not
    /// need it.
    lost: Option<&'static str>,
    /// File, lines that are in it, and the lines that take their place.
    edits: &'static [(&'static str, &'static str, &'static str)],
}

/// All of them.
pub(super) const CHANGES: [Change; 7] =
    [REGISTERS, KEPT, SUBMITTER, PROCESSOR, CLOCK, ENDED, ENDED_COPY];

/// Kernels before 6.13 keep 2,696 bytes of floating-point state, and give that to the host, which
/// takes its whole state or none: 11,008 bytes where the processor has AMX. Without this no program
/// of a guest starts there.
const REGISTERS: Change = Change {
    lost: None,
    edits: &[(
        "arch/x86/um/os-Linux/registers.c",
        "\
		iov.iov_base = fp_regs;
		iov.iov_len = FP_SIZE * sizeof(unsigned long);
		if (ptrace(PTRACE_SETREGSET",
        "\
		static char whole[1 << 14] __attribute__((aligned(64)));

		/* The part that is not kept is not in use: its bits in the header are 0. */
		__builtin_memcpy(whole, fp_regs, FP_SIZE * sizeof(unsigned long));
		iov.iov_base = whole;
		iov.iov_len = sizeof(whole);
		if (ptrace(PTRACE_SETREGSET",
    )],
};

/// A program's floating-point state stays in the host's process for it until somebody wants it: to
/// fetch it at each stop and hand it back was a sixth of what a guest cost the host.
const KEPT: Change = Change {
    lost: None,
    edits: &[
        (
            "arch/um/include/shared/registers.h",
            "extern int get_fp_registers(int pid, unsigned long *regs);\n",
            "\
extern int get_fp_registers(int pid, unsigned long *regs);
extern void leave_fp_registers(int pid, unsigned long *regs);
extern int return_fp_registers(int pid, unsigned long *regs);
extern void fetch_fp_registers(void);\n",
        ),
        (
            "arch/x86/um/os-Linux/registers.c",
            "int have_xstate_support;\n",
            "\
int have_xstate_support;

/* The process that has somebody's state, and where that belongs; NULL: none has. */
static int fp_pid;
static unsigned long *fp_of;

void leave_fp_registers(int pid, unsigned long *regs)
{
	fp_pid = pid;
	fp_of = regs;
}

int return_fp_registers(int pid, unsigned long *regs)
{
	return fp_of == regs && fp_pid == pid ? 0 : put_fp_registers(pid, regs);
}

void fetch_fp_registers(void)
{
	unsigned long *regs = fp_of;

	fp_of = NULL;
	/* It fails when the process has ended: then nobody wants them. */
	if (regs)
		get_fp_registers(fp_pid, regs);
}
",
        ),
        (
            "arch/x86/um/os-Linux/registers.c",
            "	if (ptrace(PTRACE_SETFPREGS,",
            "	fetch_fp_registers();\n	if (ptrace(PTRACE_SETFPREGS,",
        ),
        (
            "arch/x86/um/os-Linux/registers.c",
            "		if (ptrace(PTRACE_SETREGSET,",
            "		fetch_fp_registers();\n		if (ptrace(PTRACE_SETREGSET,",
        ),
        (
            "arch/um/os-Linux/skas/process.c",
            "	err = get_fp_registers(pid, aux_fp_regs);\n",
            "	err = 0;\n	fetch_fp_registers();\n",
        ),
        (
            "arch/um/os-Linux/skas/process.c",
            "	err = put_fp_registers(pid, aux_fp_regs);\n",
            "	/* Its registers are returned when the program goes on. */\n",
        ),
        (
            "arch/um/os-Linux/skas/process.c",
            "		if (put_fp_registers(pid, regs->fp)) {\n",
            "		if (return_fp_registers(pid, regs->fp)) {\n",
        ),
        (
            "arch/um/os-Linux/skas/process.c",
            "\
		if (get_fp_registers(pid, regs->fp)) {
			printk(UM_KERN_ERR \"userspace -  get_fp_registers failed, \"
			       \"errno = %d\\n\", errno);
			fatal_sigsegv();
		}
",
            "		leave_fp_registers(pid, regs->fp);\n",
        ),
        (
            "arch/um/kernel/process.c",
            "	set_current(to);\n",
            "	fetch_fp_registers();\n	set_current(to);\n",
        ),
        (
            "arch/um/kernel/process.c",
            "memcpy(&p->thread.regs.regs, current_pt_regs(),",
            "fetch_fp_registers();\n		memcpy(&p->thread.regs.regs, current_pt_regs(),",
        ),
        (
            "arch/um/kernel/exec.c",
            "	get_safe_registers(current_pt_regs()->regs.gp,",
            "	fetch_fp_registers();\n	get_safe_registers(current_pt_regs()->regs.gp,",
        ),
        (
            "arch/x86/um/signal.c",
            "		err = copy_from_user(regs->regs.fp,",
            "		fetch_fp_registers();\n		err = copy_from_user(regs->regs.fp,",
        ),
        (
            "arch/x86/um/signal.c",
            "		if (copy_to_user(to_fp, regs->regs.fp,",
            "		fetch_fp_registers();\n		if (copy_to_user(to_fp, regs->regs.fp,",
        ),
    ],
};

/// A request remembers the task that submitted it. To a device that wants to know, an elevator,
/// the driver says who that is, whether it waits, and its I/O priority; `block::submitter` reads
/// it. And the queue is long enough for what waits in such a device.
const SUBMITTER: Change = Change {
    lost: Some("--elevator"),
    edits: &[
        (
            "include/linux/blk-mq.h",
            "	unsigned short ioprio;\n",
            "	unsigned short ioprio;\n	pid_t submitter;\n",
        ),
        (
            "block/blk-mq.c",
            "	rq->__sector = bio->bi_iter.bi_sector;\n",
            "	rq->__sector = bio->bi_iter.bi_sector;
	rq->submitter = task_pid_nr(current);\n",
        ),
        (
            "drivers/block/virtio_blk.c",
            "static blk_status_t virtblk_setup_cmd(",
            "\
/* Device-specific feature: the header's ioprio says who submitted. */
#define VIRTIO_BLK_F_SUBMITTER 60

/* Level in bits 0-2, class in 3-4, sync in 5, task in 6-27. */
static u32 virtblk_ioprio(struct virtio_device *vdev, struct request *req)
{
	u32 ioprio = req_get_ioprio(req);

	if (!virtio_has_feature(vdev, VIRTIO_BLK_F_SUBMITTER))
		return ioprio;
	return (ioprio & 7) | (IOPRIO_PRIO_CLASS(ioprio) & 3) << 3 |
		(u32)op_is_sync(req->cmd_flags) << 5 | (u32)req->submitter << 6;
}

static blk_status_t virtblk_setup_cmd(",
        ),
        (
            "drivers/block/virtio_blk.c",
            "cpu_to_virtio32(vdev, req_get_ioprio(req))",
            "cpu_to_virtio32(vdev, virtblk_ioprio(vdev, req))",
        ),
        (
            "drivers/block/virtio_blk.c",
            "static unsigned int features[] = {\n",
            "static unsigned int features[] = {\n	VIRTIO_BLK_F_SUBMITTER,\n",
        ),
        (
            "arch/um/drivers/virtio_uml.c",
            "int num = MAX_SUPPORTED_QUEUE_SIZE;\n",
            "\
	/* A device that has an elevator takes all bios that are on their way. */
	int num = __virtio_test_bit(vdev, 60) ? 4096 : MAX_SUPPORTED_QUEUE_SIZE;\n",
        ),
    ],
};

/// Code takes the time that a host would need for it: what is owed, by calls, bytes copied,
/// switches of task, pages, files made and requests of block devices, becomes virtual time at the
/// end of a call, when a task goes on after it waited, and while nothing can run. The module
/// `processor` sets the values; all 0, as a kernel boots, every moment is as without this.
const PROCESSOR: Change = Change {
    lost: Some("--host"),
    edits: &[
        (
            "include/linux/sched.h",
            "asmlinkage void schedule(void);\n",
            "\
asmlinkage void schedule(void);

/* What the code of a host costs: see arch/um/kernel/skas/syscall.c. */
enum host_cost {
	HOST_SWITCH, HOST_FAULT, HOST_CREATE, HOST_TO_PROGRAM, HOST_FROM_PROGRAM,
	HOST_FOUND, HOST_ADDED, HOST_NONE, HOST_MQ_DEADLINE, HOST_KYBER, HOST_BFQ, HOST_COSTS
};
/* Parts are of 1024: of one event, or the bytes of a KiB. */
void host_owe(enum host_cost which, unsigned long parts);
/* True when time passed. */
bool host_pay(void);
",
        ),
        (
            "arch/um/kernel/skas/syscall.c",
            "#include <asm/delay.h>\n",
            "\
#include <asm/delay.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/sched/stat.h>
#include <linux/fcntl.h>

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX \"host.\"

/* In ns: of each call, and of what enum host_cost names. */
static unsigned int host_calls[512];
static unsigned int host_costs[HOST_COSTS];
/* So many tasks run at once; 0: code is free. */
static unsigned int host_cores;
/* In 1/1024 ns. */
static unsigned long long host_owed;
/* In ns. */
static unsigned long long host_paid;

module_param_array_named(calls, host_calls, uint, NULL, 0600);
module_param_array_named(costs, host_costs, uint, NULL, 0600);
module_param_named(cores, host_cores, uint, 0600);
module_param_named(paid, host_paid, ullong, 0400);

void host_owe(enum host_cost which, unsigned long parts)
{
	host_owed += (unsigned long long)host_costs[which] * parts;
}

bool host_pay(void)
{
	unsigned int tasks = clamp(nr_running(), 1U, max(host_cores, 1U));
	unsigned long long ns = div_u64(host_owed, 1024 * tasks);

	if (!host_cores)
		host_owed = ns = 0;
	if (!ns)
		return false;
	host_owed -= ns * 1024 * tasks;
	host_paid += ns;
	time_travel_ndelay(ns);
	return true;
}

static void host_owe_call(struct uml_pt_regs *r, int syscall)
{
	/* What today's C library makes of fstat. */
	if (syscall == __NR_newfstatat && UPT_SYSCALL_ARG4(r) & AT_EMPTY_PATH)
		syscall = __NR_fstat;
	host_owed += 1024ULL * host_calls[min(syscall, 511)];
}
",
        ),
        (
            "arch/um/kernel/skas/syscall.c",
            "		PT_REGS_SET_SYSCALL_RETURN(regs, ret);\n",
            "		PT_REGS_SET_SYSCALL_RETURN(regs, ret);\n		host_owe_call(r, syscall);\n",
        ),
        (
            "arch/um/kernel/skas/syscall.c",
            "if (IS_ERR_VALUE(ret) &&",
            "if (!host_pay() && IS_ERR_VALUE(ret) &&",
        ),
        (
            "kernel/sched/core.c",
            "	sched_update_worker(tsk);\n}\nEXPORT_SYMBOL(schedule);",
            "	sched_update_worker(tsk);\n	host_pay();\n}\nEXPORT_SYMBOL(schedule);",
        ),
        (
            "arch/um/kernel/process.c",
            "	um_idle_sleep();\n	raw_local_irq_enable();\n",
            "	if (!host_pay())\n		um_idle_sleep();\n	raw_local_irq_enable();\n",
        ),
        (
            "arch/um/kernel/process.c",
            "	to->thread.prev_sched = from;\n",
            "	to->thread.prev_sched = from;\n	host_owe(HOST_SWITCH, 1024);\n",
        ),
        (
            "arch/um/kernel/trap.c",
            "	*code_out = SEGV_MAPERR;\n",
            "	*code_out = SEGV_MAPERR;\n	host_owe(HOST_FAULT, 1024);\n",
        ),
        (
            "arch/um/kernel/skas/uaccess.c",
            "	return buffer_op((unsigned long) from, n, 0, copy_chunk_from_user, &to);\n",
            "	host_owe(HOST_FROM_PROGRAM, n);
	return buffer_op((unsigned long) from, n, 0, copy_chunk_from_user, &to);\n",
        ),
        (
            "arch/um/kernel/skas/uaccess.c",
            "	return buffer_op((unsigned long) to, n, 1, copy_chunk_to_user, &from);\n",
            "	host_owe(HOST_TO_PROGRAM, n);
	return buffer_op((unsigned long) to, n, 1, copy_chunk_to_user, &from);\n",
        ),
        (
            "mm/filemap.c",
            "	folio_batch_init(&fbatch);\n\n	do {\n		cond_resched();\n",
            "\
	folio_batch_init(&fbatch);
	/* Not on the page on which the file's last read ended. */
	if (iocb->ki_pos < i_size_read(inode) &&
	    iocb->ki_pos >> PAGE_SHIFT != (ra->prev_pos - 1) >> PAGE_SHIFT)
		host_owe(HOST_FOUND, 1024);

	do {
		cond_resched();\n",
        ),
        (
            "fs/read_write.c",
            "ssize_t vfs_write(struct file *file, const char __user *buf, size_t count, loff_t *pos)
{
	ssize_t ret;
",
            "\
ssize_t vfs_write(struct file *file, const char __user *buf, size_t count, loff_t *pos)
{
	unsigned long pages = file->f_mapping->nrpages;
	ssize_t ret;
",
        ),
        (
            "fs/read_write.c",
            "		add_wchar(current, ret);\n	}\n	inc_syscw(current);\n	file_end_write(file);\n",
            "\
		add_wchar(current, ret);
	}
	if (file->f_mapping->nrpages > pages)
		host_owe(HOST_ADDED, 1024);
	inc_syscw(current);
	file_end_write(file);\n",
        ),
        (
            "fs/namei.c",
            "		file->f_mode |= FMODE_CREATED;\n",
            "		file->f_mode |= FMODE_CREATED;\n		host_owe(HOST_CREATE, 1024);\n",
        ),
        (
            "block/blk-mq.c",
            "void blk_mq_complete_request(struct request *rq)\n{\n",
            "\
void blk_mq_complete_request(struct request *rq)
{
	struct elevator_queue *elevator = rq->q->elevator;
	char first = elevator ? *elevator->type->elevator_name : 'n';

	/* mq-deadline, kyber, bfq, none. */
	host_owe(first == 'm' ? HOST_MQ_DEADLINE : first == 'k' ? HOST_KYBER :
		 first == 'b' ? HOST_BFQ : HOST_NONE, 1024);\n",
        ),
    ],
};

/// The scheduler's clock, by which delays and processor time of tasks are counted, ticks every 10
/// ms here. With `host.clock=1` on the command line it is virtual time itself; reading it costs
/// nothing.
const CLOCK: Change = Change {
    lost: Some("boot record"),
    edits: &[(
        "arch/um/kernel/time.c",
        "static struct clocksource timer_clocksource = {\n",
        "\
#include <linux/moduleparam.h>
#include <linux/sched/clock.h>
#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX \"host.\"

static bool host_clock;
module_param_named(clock, host_clock, bool, 0400);

unsigned long long notrace sched_clock(void)
{
	if (host_clock)
		return time_travel_time;
	return (unsigned long long)(jiffies - INITIAL_JIFFIES) * (NSEC_PER_SEC / HZ);
}

static struct clocksource timer_clocksource = {\n",
    )],
};

/// A program of a guest is a process of the host that the kernel traces. Where the kernel is
/// killed, it ends as well: else it went on as a program of the host, and took its files for those
/// of the guest. This is for the first program.
const ENDED: Change = Change {
    lost: None,
    edits: &[(
        "arch/um/os-Linux/skas/process.c",
        "		   (void *) PTRACE_O_TRACESYSGOOD) < 0) {\n",
        "		   (void *) (PTRACE_O_TRACESYSGOOD | 1 << 20 /* EXITKILL */)) < 0) {\n",
    )],
};

/// The same for programs that are copies of others, in kernels that make such.
const ENDED_COPY: Change = Change {
    lost: None,
    edits: &[(
        "arch/um/os-Linux/skas/process.c",
        "		   (void *)PTRACE_O_TRACESYSGOOD) < 0) {\n",
        "		   (void *)(PTRACE_O_TRACESYSGOOD | 1 << 20 /* EXITKILL */)) < 0) {\n",
    )],
};

/// What the changes put in: part of what names a kernel's configuration.
pub(super) fn text() -> impl Iterator<Item = &'static str> {
    CHANGES.iter().flat_map(|change| change.edits.iter().map(|&(_, _, new)| new))
}

/// Make every change for which the tree has the lines. Returns what a kernel of it cannot do.
///
/// # Errors
/// When the tree cannot be written.
pub(super) fn make(tree: &Path) -> std::io::Result<Vec<&'static str>> {
    let mut lost = Vec::new();
    for change in &CHANGES {
        if !change.make(tree)? {
            lost.extend(change.lost);
        }
    }
    Ok(lost)
}

impl Change {
    /// False when it does not fit.
    fn make(&self, tree: &Path) -> std::io::Result<bool> {
        let mut files: Vec<(&str, String)> = Vec::new();
        for &(name, old, new) in self.edits {
            let known = files.iter().position(|(known, _)| *known == name);
            let index = known.unwrap_or_else(|| {
                let text = std::fs::read_to_string(tree.join(name)).unwrap_or_default();
                files.push((name, text));
                files.len() - 1
            });
            let text = &mut files[index].1;
            if !text.contains(old) {
                return Ok(false);
            }
            *text = text.replacen(old, new, 1);
        }
        for (name, text) in files {
            std::fs::write(tree.join(name), text)?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with what `change` is about, but for the lines number `without` of it.
    fn tree_for(change: &Change, without: Option<usize>) -> std::path::PathBuf {
        let name = format!("blocklab-edits-{}-{without:?}", std::process::id());
        let tree = std::env::temp_dir().join(name);
        for (index, (file, old, _)) in change.edits.iter().enumerate() {
            let path = tree.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let before = std::fs::read_to_string(&path).unwrap_or_default();
            let old = if without == Some(index) { "" } else { old };
            std::fs::write(&path, format!("{before}begin\n{old}\nend\n")).unwrap();
        }
        tree
    }

    fn all_of(tree: &Path, change: &Change) -> Vec<String> {
        let files = change.edits.iter().map(|(file, ..)| tree.join(file));
        files.map(|file| std::fs::read_to_string(file).unwrap()).collect()
    }

    #[test]
    fn a_change_is_made_wholly_or_not_at_all() {
        for change in &CHANGES {
            let tree = tree_for(change, None);
            let fits = change.make(&tree).unwrap();
            let made = all_of(&tree, change);
            std::fs::remove_dir_all(&tree).unwrap();
            for (text, (file, _, new)) in made.iter().zip(change.edits) {
                assert!(fits && text.matches(new).count() == 1, "{file}");
            }
            for without in 0..change.edits.len() {
                let tree = tree_for(change, Some(without));
                let before = all_of(&tree, change);
                let fits = change.make(&tree).unwrap();
                let after = all_of(&tree, change);
                std::fs::remove_dir_all(&tree).unwrap();
                assert_eq!((fits, before), (false, after), "{without}");
            }
        }
    }

    #[test]
    fn what_a_kernel_cannot_do_without_a_change_is_said() {
        let nothing = std::env::temp_dir().join("no-such-tree");
        assert_eq!(make(&nothing).unwrap(), ["--elevator", "--host", "boot record"]);
    }

    /// The driver and the device agree on which feature it is.
    #[test]
    fn the_driver_takes_the_feature_that_is_offered() {
        let bit = crate::vhost_user::block::feature::SUBMITTER.trailing_zeros();
        let driver = text().find(|text| text.contains("virtblk_ioprio(struct")).unwrap();
        assert!(driver.contains(&format!("VIRTIO_BLK_F_SUBMITTER {bit}\n")), "{driver}");
        let size = crate::vhost_user::backend::BIOS_MAX;
        let queue = text().find(|text| text.contains("MAX_SUPPORTED_QUEUE_SIZE")).unwrap();
        assert!(queue.contains(&format!("(vdev, {bit}) ? {size} :")), "{queue}");
    }
}
