//! Why an image is not resumed.

use core::fmt;

/// Why an image is not resumed. The machine can boot as if there were none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// There is no mark: no image, one that was not finished, or one that was used.
    NoMark,
    /// The header is damaged, or not that of the mark.
    Header,
    /// A version of the format that is not known.
    Version(u64),
    /// The run table or the checksums are damaged.
    Table,
    /// The runs are not in order, overlap or lie outside of memory.
    Runs,
    /// This MiB of data is damaged.
    Data(u64),
    /// Another processor, or other features of it.
    Processor,
    /// Another memory map.
    Memory,
    /// The image's kernel uses a depth of paging that there is not.
    Paging,
    /// This disk is missing, or was written since.
    Disk(u64),
    /// The frames that the header calls free are not, or too few.
    Scratch,
    /// The kernel's record of its entry is not as expected.
    Kernel,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoMark => write!(f, "no image, an unfinished one, or one that was used"),
            Refusal::Header => write!(f, "the image's header is damaged"),
            Refusal::Version(version) => {
                write!(f, "the image has version {version}, expected {}", Refusal::VERSION)
            }
            Refusal::Table => write!(f, "the image's tables are damaged"),
            Refusal::Runs => write!(f, "the image's runs are not in order or outside of memory"),
            Refusal::Data(mib) => write!(f, "the image's data is damaged in MiB {mib}"),
            Refusal::Processor => write!(f, "the processor is not that of the suspend"),
            Refusal::Memory => write!(f, "the memory map is not that of the suspend"),
            Refusal::Paging => {
                write!(f, "the image's kernel has neither four nor five levels of page tables")
            }
            Refusal::Disk(index) => {
                write!(f, "disk {index} of the suspend is missing or was written since")
            }
            Refusal::Scratch => write!(f, "the image leaves no room for the loader"),
            Refusal::Kernel => write!(f, "the kernel's record of its entry is not known"),
        }
    }
}

impl Refusal {
    /// The version of the format that is written and read.
    pub const VERSION: u64 = 5;
}
