//! Why a guest did not come to its end, and what it and its program said.

use config::{Cause, Duration};
use sim::Nanos;
use study::Failure;

use super::Options;
use super::guest::Killed;
use super::serve::End;

/// So much of what a program said on stdout and on stderr is told.
const SAID_MAX: usize = 1000;

/// Why it did not: `killed` if this machine ended it, and its kernel's last `words`.
pub(super) fn failed(
    end: End,
    (killed, words): (Option<Killed>, &str),
    options: &Options,
) -> Failure {
    let failure = match end {
        End::Rebooted => Failure::machine("the guest was rebooted: a journey is one boot of it")
            .help("leave `reboot` out of the command"),
        End::Deadlock => {
            Failure::machine("the guest sleeps for ever: nothing is left that could wake it")
                .help("the command waits for something that only the outside could do")
        }
        End::Computes => computes(options),
        End::Limit => Failure::machine(format!(
            "the command had not ended after {} of virtual time",
            Duration(options.limit)
        ))
        .help(format!(
            "does it wait for something that never comes? if not, give it more: --limit {}",
            Duration(Nanos(options.limit.0.saturating_mul(10)))
        )),
        _ => match killed {
            Some(how) => return by_this_machine(how, options.memory_mib),
            // Its words are the reason.
            None => return gone(words).caused_by(Cause::GuestFailed),
        },
    };
    with_words(failure, words).caused_by(Cause::GuestFailed)
}

/// With what the guest's kernel said, if anything: a file system that went read-only, or a drive
/// that does not answer, is told there alone.
pub(crate) fn with_words(mut failure: Failure, words: &str) -> Failure {
    // Its last word, where the session did come to its end.
    let told = words.lines().filter(|line| !line.starts_with("reboot: "));
    let told: Vec<&str> = told.collect();
    if !told.is_empty() {
        failure.message += &format!("\nthe guest's kernel said:\n{}", told.join("\n"));
    }
    failure
}

/// With the end of what the program said on `stdout` and `stderr`, which nobody saw.
pub(super) fn with_output(mut failure: Failure, [out, err]: [&str; 2]) -> Failure {
    for (name, text) in [("stdout", out.trim_end()), ("stderr", err.trim_end())] {
        let from = text.char_indices().rev().nth(SAID_MAX - 1).map_or(0, |(at, _)| at);
        if !text.is_empty() {
            failure.message += &format!("\nthe program's {name} ended with:\n{}", &text[from..]);
        }
    }
    failure
}

/// Why a guest ended that this machine ended.
fn by_this_machine(how: Killed, memory_mib: u64) -> Failure {
    let failure = Failure::machine(match how {
        Killed::Signal(number) => format!("signal {number} of this machine ended the guest"),
        Killed::NoRoom => "this machine had no room left for the guest's memory".to_string(),
    });
    failure
        .expected(format!("{memory_mib} MiB for each guest: of memory, and free in /dev/shm"))
        .help("give guests less (--mem), or let fewer run at a time (crash: --guests)")
}

/// Why a guest ended by itself.
fn gone(words: &str) -> Failure {
    let out_of_memory = words.contains("Out of memory") || words.contains("out of memory");
    let words = if words.is_empty() { "it said nothing" } else { words };
    let failure = Failure::machine(format!("the guest ended too early:\n{words}"));
    let was_turned_off = ["System halted", "Power down"].iter().any(|end| words.contains(end));
    failure.help(if out_of_memory {
        "give it more memory: --mem 512M"
    } else if was_turned_off {
        "leave what turns the guest off out of the command"
    } else {
        "blocklab kernel status; another kernel: --kernel PATH"
    })
}

/// Why a guest was ended that computed while its time stood still.
fn computes(options: &Options) -> Failure {
    let failure = Failure::machine(format!(
        "the guest computed for {} of this machine's processor time while virtual time stood still",
        options.compute_limit
    ));
    let failure = failure.expected(
        "a program that sleeps, asks for the time or does I/O: code takes no time, so a loop that \
         waits for time to pass never ends",
    );
    let longer = "if it only computes for long: --compute-limit 1h (travel.compute_limit)";
    failure.help(match options.host {
        None => format!("charge its system calls: --host PROFILE (travel.host); {longer}"),
        // Even there a program's own computing is free.
        Some(_) => longer.into(),
    })
}

/// Of a session that cannot begin.
#[cfg(test)]
pub(crate) fn options() -> Options {
    Options::new("/no/such/kernel".into(), "/bin/true".into(), vec!["sh".into()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_told() {
        let said = "EXT4-fs error (device vda): Remounting filesystem read-only";
        for end in [End::Deadlock, End::Computes, End::Limit, End::Rebooted, End::GuestGone] {
            let failure = failed(end, (None, said), &options());
            assert_eq!(failure.message.matches("EXT4-fs error").count(), 1, "{failure}");
            assert_eq!(failure.cause, Some(Cause::GuestFailed));
        }
        let failure = failed(End::Deadlock, (None, "reboot: System halted"), &options());
        assert!(!failure.message.contains("said"), "{failure}");
        let long = "x".repeat(2 * SAID_MAX);
        let failure = with_output(failure, ["", &format!("begin {long} disk full\n")]);
        let end = failure.message.rsplit('\n').next().unwrap();
        assert!(end.len() == SAID_MAX && end.ends_with(" disk full"), "{failure}");
        assert!(!failure.message.contains("stdout"), "{failure}");
    }

    #[test]
    fn what_a_guest_does_to_itself_is_told_from_what_is_done_to_it() {
        let options = options();
        for end in [End::Rebooted, End::Deadlock, End::Computes, End::Limit, End::GuestGone] {
            let failure = failed(end, (None, "Kernel panic"), &options);
            assert_eq!(failure.cause, Some(Cause::GuestFailed), "{failure}");
        }
        for (how, told) in [(Killed::Signal(9), "signal 9 "), (Killed::NoRoom, "no room left")] {
            let failure = failed(End::GuestGone, (Some(how), ""), &options);
            assert_eq!(failure.cause, None);
            assert!(failure.message.contains(told), "{failure}");
        }
    }
}
