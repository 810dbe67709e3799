//! What is set on the command line.

/// `KEY=VALUE` of the command line as TOML. What is neither is told by what builds the part.
pub(super) fn as_toml(set: &str) -> String {
    let Ok((path, value)) = study::set_value(set) else { return set.to_string() };
    let key = path.join(".");
    format!("{}={value}", key.strip_prefix("device.").unwrap_or(&key))
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
