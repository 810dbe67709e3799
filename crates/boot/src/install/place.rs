//! Links in a system that is mounted elsewhere lead where they do not lead once it is started.

use std::fs;
use std::path::{Component, Path, PathBuf};

use config::Failure;

/// Refuse a place below `root` where a link on the way leads to nothing or out of `root`: what is
/// written or removed there would be another system's. In `/` links lead where they should.
///
/// # Errors
/// The link, and where it leads.
pub(super) fn check(root: &Path, place: &Path) -> Result<(), Failure> {
    let Ok(top) = root.canonicalize() else { return Ok(()) };
    let mut path = PathBuf::from(root);
    for name in place.strip_prefix(root).unwrap_or(place).components() {
        if let Component::Normal(name) = name {
            path.push(name);
        }
        let Ok(target) = fs::read_link(&path) else { continue };
        let refused = |what: String| {
            let link = path.display();
            Failure::input(format!("{link}: a link to {}, {what}", target.display()))
        };
        let Ok(real) = path.canonicalize() else {
            return Err(refused("where nothing is".into())
                .help("remove the link, or make what it leads to"));
        };
        if top != Path::new("/") && (target.is_absolute() || !real.starts_with(&top)) {
            return Err(refused(format!("which is not in {}", root.display()))
                .expected("links that are relative and stay inside")
                .help("do it in the system itself once it runs, without --root"));
        }
    }
    Ok(())
}

/// What a file below `root` says; `None` where there is none. What is not UTF-8 of it becomes
/// U+FFFD.
///
/// # Errors
/// A link on the way that leads out of `root`, or why the file cannot be read.
pub(super) fn read(root: &Path, file: &Path) -> Result<Option<String>, Failure> {
    let cannot = |why| Failure::machine(format!("cannot read {}: {why}", file.display()));
    if !file.try_exists().map_err(cannot)? {
        return Ok(None);
    }
    check(root, file)?;
    let bytes = fs::read(file).map_err(cannot)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_stay_inside() {
        let folder = attach::PrivateFolder::new().unwrap();
        let root = folder.path.join("r");
        fs::create_dir_all(root.join("usr/lib")).unwrap();
        fs::create_dir_all(folder.path.join("out")).unwrap();
        symlink("usr/lib", root.join("lib")).unwrap();
        symlink(folder.path.join("out"), root.join("absolute")).unwrap();
        symlink(root.join("usr"), root.join("looks-inside")).unwrap();
        symlink("../out", root.join("relative")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        check(&root, &root.join("lib/systemd/new")).unwrap();
        for (name, what) in [
            ("absolute", "is not in"),
            ("looks-inside", "is not in"),
            ("relative", "is not in"),
            ("dangling", "where nothing is"),
        ] {
            let told = check(&root, &root.join(name).join("below")).unwrap_err().message;
            assert!(told.contains(what) && told.contains(&format!("r/{name}: ")), "{told}");
        }
    }
}
