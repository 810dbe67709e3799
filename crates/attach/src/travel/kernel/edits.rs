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
pub(super) const CHANGES: [Change; 2] = [REGISTERS, SUBMITTER];

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
            "	int num = MAX_SUPPORTED_QUEUE_SIZE;\n",
            "\
	/* A device that has an elevator takes all bios that are on their way. */
	int num = __virtio_test_bit(vdev, 60) ? 4096 : MAX_SUPPORTED_QUEUE_SIZE;\n",
        ),
    ],
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
        assert_eq!(make(&nothing).unwrap(), ["--elevator"]);
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
