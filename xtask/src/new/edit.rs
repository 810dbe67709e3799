//! Adding lines to `mod.rs` and `registry.rs`. `cargo fmt` puts them in order afterwards.

use super::Names;
use super::kinds::Kind;

/// `text` of a `mod.rs` with one more module, declared like those it has.
pub(super) fn add_module(text: &str, module: &str) -> Result<String, String> {
    let is_module = |line: &&str| line.contains("mod ") && line.ends_with(';');
    let declared = text.lines().filter(|line| !line.starts_with(' ')).find(is_module);
    let like = declared.ok_or("no module is declared here yet: add the first one by hand")?;
    let visibility = like.split("mod ").next().unwrap_or_default();
    Ok(text.replacen(like, &format!("{visibility}mod {module};\n{like}"), 1))
}

/// `text` of the registry with one more entry and the import it needs.
pub(super) fn add_entry(text: &str, kind: &Kind, names: &Names) -> Result<String, String> {
    let lost = |what: &str| format!("{what} is not in the registry: add the lines by hand");
    let Names { kebab, module, variant } = names;
    let head = format!("pub enum {}(", kind.registry);
    let (before, block) = text.split_once(&head).ok_or_else(|| lost(&head))?;
    let (list, after) = block.split_once("\n    }\n").ok_or_else(|| lost("the end of its list"))?;
    let list = format!("{head}{list}\n        {variant} = \"{kebab}\" => {module},\n    }}\n");
    // With the brace, so that an import from a module further down is not taken for it.
    let import = format!("use {}::{{", kind.module);
    let (above, below) = before.split_once(&import).ok_or_else(|| lost(&import))?;
    Ok(format!("{above}{import}{module}, {below}{list}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::new::kinds::KINDS;

    #[test]
    fn a_module_is_declared_like_its_neighbours() {
        let text = "//! Doc.\n\npub(crate) mod b;\n\nuse x;\n";
        let expected = "//! Doc.\n\npub(crate) mod a;\npub(crate) mod b;\n\nuse x;\n";
        assert_eq!(add_module(text, "a").unwrap(), expected);
        assert!(add_module("use x;\n", "a").is_err());
    }

    #[test]
    fn an_entry_goes_to_the_end_of_its_own_list() {
        let registry = "\
use crate::device::{Context, null};

r! {
    pub enum Other(\"o\") in \"o/\": C => B = {
        X = \"x\" => x,
    }
}
r! {
    pub enum DeviceModel(\"device\") in \"device/\": C => B = {
        Null = \"null\" => null,
    }
}
";
        let names = Names::new("my-disk").unwrap();
        let device = KINDS.iter().find(|kind| kind.word == "device").unwrap();
        let text = add_entry(registry, device, &names).unwrap();
        assert!(text.starts_with("use crate::device::{my_disk, Context, null};\n"), "{text}");
        let tail = "Null = \"null\" => null,\n        MyDisk = \"my-disk\" => my_disk,\n    }\n}\n";
        assert!(text.ends_with(tail), "{text}");
        assert!(add_entry("nothing", device, &names).unwrap_err().contains("by hand"));
    }
}
