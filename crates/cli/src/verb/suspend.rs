//! `blocklab suspend`: this machine into an image that the loader resumes.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::{Map, json};
use study::Failure;

use crate::say;
use crate::verb::snapshot::Compress;

#[derive(clap::Args)]
#[command(after_help = "The machine is switched off when the image is durable. Try --dry-run and \
                        --measure first, and read docs/snapshot.md.")]
pub(crate) struct Args {
    /// A disk, or by UEFI a partition, that holds an image of ours, or zeros
    #[arg(required_unless_present_any = ["measure", "dry_run"], conflicts_with = "measure")]
    target: Option<PathBuf>,
    /// Make the image, count its pages, and go on
    #[arg(long, conflicts_with = "dry_run")]
    measure: bool,
    /// Say what would be in it, about; nothing stands still, and nothing is written
    #[arg(long)]
    dry_run: bool,
    /// Tell TARGET of this machine, for an image that the kernel makes by itself
    #[arg(long, conflicts_with_all = ["measure", "dry_run"])]
    prepare: bool,
    /// Which pages leave memory for swap first, as `blocklab snapshot try` has it
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,
    /// Pack each MiB of the image that becomes shorter so
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Compress::None)]
    compress: Compress,
    /// Where a policy that learns keeps what it knows
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// One JSON object on stdout, of --measure or --dry-run
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        if self.json && !self.measure && !self.dry_run {
            return Err(Failure::input("--json: a machine that is off says nothing")
                .expected("--measure or --dry-run beside it"));
        }
        if let Some(policy) = &self.policy {
            boot::snapshot::policy_learns(policy)?;
        }
        let wrong = |why: std::io::Error| Failure::machine(format!("blocklab-guest: {why}"));
        // All of the program that suspends is kept in memory, so it is the small one.
        let memory = memfd_create("blocklab-guest", MemfdFlags::CLOEXEC);
        let mut program = File::from(memory.map_err(|why| wrong(why.into()))?);
        program.write_all(boot::GUEST_PROGRAM).map_err(wrong)?;
        let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
        command.arg0("blocklab-guest").arg("suspend");
        for (flag, set) in
            [("--measure", self.measure), ("--dry-run", self.dry_run), ("--prepare", self.prepare)]
        {
            command.args(set.then_some(flag));
        }
        if let Some(policy) = self.policy {
            command.args(["--policy", &policy]);
        }
        if self.compress == Compress::Lz4 {
            command.args(["--compress", "lz4"]);
        }
        if let Some(record) = self.record {
            command.arg("--record").arg(record);
        }
        command.args(self.target.map(|target| std::path::absolute(&target).unwrap_or(target)));
        if !self.json {
            return Err(wrong(command.exec()));
        }
        let output = command.stderr(Stdio::inherit()).output().map_err(wrong)?;
        let said = String::from_utf8_lossy(&output.stdout);
        let pairs = boot::snapshot::counts(&said).into_iter();
        if output.status.success() {
            say(json!({ "image": pairs.map(|(name, n)| (name, json!(n))).collect::<Map<_, _>>() }));
        }
        Ok(output.status.code().map_or(3, |code| code as u8))
    }
}
