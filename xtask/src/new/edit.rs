//! Adding the line of a model to its slot.

use super::Names;
use super::kinds::Kind;

/// `text` of the file of a slot with one more entry, the last.
pub(super) fn add_entry(text: &str, kind: &Kind, names: &Names) -> Result<String, String> {
    let lost = |what: &str| format!("{what} is not in the file of the slot: add the line by hand");
    let Names { kebab, module, variant } = names;
    let head = format!("pub enum {}(", kind.registry);
    let (before, block) = text.split_once(&head).ok_or_else(|| lost(&head))?;
    let (list, after) = block.split_once("\n    }\n").ok_or_else(|| lost("the end of its list"))?;
    Ok(format!(
        "{before}{head}{list}\n        {variant} = \"{kebab}\" => {module},\n    }}\n{after}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::new::kinds::KINDS;

    #[test]
    fn an_entry_goes_to_the_end_of_its_own_list() {
        let slots = "\
r! {
    pub enum Other(\"o\"): C => B = {
        X = \"x\" => x,
    }
}
r! {
    pub enum DeviceModel(\"device\"): C => B = {
        Null = \"null\" => null,
    }
}
";
        let names = Names::new("my-disk").unwrap();
        let device = KINDS.iter().find(|kind| kind.word == "device").unwrap();
        let text = add_entry(slots, device, &names).unwrap();
        let tail = "Null = \"null\" => null,\n        MyDisk = \"my-disk\" => my_disk,\n    }\n}\n";
        assert!(text.ends_with(tail), "{text}");
        assert_eq!(text.lines().count(), slots.lines().count() + 1);
        assert!(add_entry("nothing", device, &names).unwrap_err().contains("by hand"));
    }
}
