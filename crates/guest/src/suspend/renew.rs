//! What two machines that come from one image must not have in common.
//!
//! Linux, `drivers/char/random.c`: a kernel that comes back stirs its pool, and goes on with the
//! key that it had until a minute or more is over.

use std::fs::File;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::ioctl::{NoArg, ioctl, opcode};

const RANDOM: &str = "/dev/urandom";

/// Let the kernel's random numbers be others than those of an earlier use of the image: what
/// differs now goes into its pool, and a new key comes of that.
pub(super) fn renew() -> Result<(), String> {
    const RESEED: u32 = opcode::none(b'R', 7);
    let wrong = |why: std::io::Error| format!("{RANDOM}: {why}");
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut pool = File::options().write(true).open(RANDOM).map_err(wrong)?;
    let differs =
        [time.as_nanos().to_le_bytes().as_slice(), &crate::cycles().to_le_bytes()].concat();
    pool.write_all(&differs).map_err(wrong)?;
    // SAFETY: the request takes no argument.
    unsafe { ioctl(&pool, NoArg::<RESEED>::new()) }.map_err(|why| wrong(why.into()))
}
