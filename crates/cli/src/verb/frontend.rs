//! What `attach` and `mirror serve` share: options that belong to some frontends only, and where
//! clients find what is served.

use attach::frontend::Address;
use study::Failure;

/// Refuse what was given and is nothing to the frontend that was chosen: an option, whether it was
/// given, and the frontends it belongs to.
pub(super) fn check_options(
    chosen: &str,
    options: &[(&str, bool, &[&str])],
) -> Result<(), Failure> {
    let foreign = options.iter().find(|(_, given, of)| *given && !of.contains(&chosen));
    match foreign {
        None => Ok(()),
        Some((option, _, of)) => {
            Err(Failure::input(format!("{option} is nothing to --as {chosen}"))
                .expected(format!("--as {}", of.join(" or --as "))))
        }
    }
}

/// Tell whoever started a server where it is, unless a program runs beside it that knows.
pub(super) fn announce(address: &Address, captive: bool) {
    if !captive {
        address.lines.iter().for_each(|line| eprintln!("{line}"));
        eprintln!("end with Ctrl-C");
    }
}
