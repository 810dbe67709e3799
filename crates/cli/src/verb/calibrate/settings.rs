//! What is set on the command line.

use toml::{Table, Value};

/// `KEY=VALUE` of the command line as TOML: a value that is none is text, as in all other commands.
pub(super) fn as_toml(set: &str) -> String {
    let Some((key, value)) = set.split_once('=') else { return set.to_string() };
    let key = key.trim();
    let key = key.strip_prefix("device.").unwrap_or(key);
    match format!("value={value}").parse::<Table>() {
        Ok(_) => format!("{key}={value}"),
        Err(_) => format!("{key}={}", Value::String(value.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_toml_or_text_as_in_other_commands() {
        for (set, toml) in [
            ("ssd.nand.read=[\"5us\"]", "ssd.nand.read=[\"5us\"]"),
            ("ssd.geometry.channels=8", "ssd.geometry.channels=8"),
            ("device.ssd.host.completion=5us", "ssd.host.completion=\"5us\""),
            ("ssd.over_provisioning=7%", "ssd.over_provisioning=\"7%\""),
            ("ssd.gc", "ssd.gc"),
        ] {
            assert_eq!(as_toml(set), toml);
        }
    }
}
