//! What the models say about themselves: their `//!` comment is the only source.

use models::registry::SLOTS;

/// The `//!` comment of the model `name` in `slot`, as Markdown.
pub fn documentation(slot: &str, name: &str) -> Option<String> {
    let entries = SLOTS.iter().find(|known| known.slot == slot)?.entries;
    let (_, source) = entries.iter().find(|(known, _)| *known == name)?;
    Some(strip(source))
}

/// The paragraph below the heading `title` of a model's documentation, as one line.
pub(crate) fn stanza(slot: &str, name: &str, title: &str) -> Option<String> {
    let text = documentation(slot, name)?;
    let heading = format!("# {title}");
    let lines = text.lines().skip_while(|line| *line != heading).skip(1);
    let lines: Vec<&str> = lines.take_while(|line| !line.starts_with("# ")).collect();
    let joined = lines.join(" ");
    let words: Vec<&str> = joined.split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

fn strip(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let text: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    text.join("\n").trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_says_what_it_leaves_out() {
        for slot in SLOTS {
            for (name, _) in slot.entries {
                assert!(
                    stanza(slot.slot, name, "What it leaves out").is_some(),
                    "{}.{name}",
                    slot.slot
                );
            }
        }
    }
}
