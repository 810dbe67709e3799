//! The guest's kernel: built once from the distribution's source, kept in the cache folder.

mod build;
mod edits;
mod tree;

use std::path::{Path, PathBuf};

use sim::Digest;
use study::Failure;

pub use build::{Progress, build, lacks};

/// What the configuration has beyond `make ARCH=um defconfig`.
const FRAGMENT: &str = include_str!("guest.config");
/// The kernel in its folder of the cache.
const KERNEL: &str = "linux";

/// Between the version of a user's own source and its fingerprint.
const OWN: char = '~';

/// A kernel in the cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Built {
    /// The version of its source; behind a `~` is what tells a user's own from others.
    pub version: String,
    /// The kernel.
    pub path: PathBuf,
    /// Made with today's configuration.
    pub current: bool,
}

/// Where kernels are kept.
///
/// # Errors
/// When there is no cache folder.
pub fn cache() -> Result<PathBuf, Failure> {
    let folder = study::Cache::folder().ok_or_else(|| {
        Failure::machine("there is no cache folder for the kernel")
            .help("export XDG_CACHE_HOME=$PWD/out/cache")
    })?;
    Ok(folder.join("kernel"))
}

/// What is changed in the kernel's source.
#[cfg(test)]
pub(super) fn changed() -> impl Iterator<Item = &'static str> {
    edits::text()
}

/// Tells kernels of different configurations apart.
fn configuration() -> String {
    let mut digest = Digest::default();
    let edits = edits::text().flat_map(str::bytes);
    FRAGMENT.bytes().chain(edits).for_each(|byte| digest.add(u64::from(byte)));
    digest.to_string()
}

/// The name of a kernel's folder.
fn folder_name(version: &str) -> String {
    format!("{version}+{}", configuration())
}

/// Every kernel in the cache, the newest current one first.
pub fn all(cache: &Path) -> Vec<Built> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(cache).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path().join(KERNEL);
        if let Some((version, configuration)) = name.rsplit_once('+')
            && path.is_file()
        {
            let current = configuration == self::configuration();
            found.push(Built { version: version.into(), path, current });
        }
    }
    found.sort_by_key(|built| {
        let version = built.version.split(OWN).next().unwrap_or_default();
        let numbers: Vec<u64> = version
            .split(|c: char| !c.is_ascii_digit())
            .map(|number| number.parse().unwrap_or(0))
            .collect();
        // Of those of one version the last that was built.
        let made = built.path.metadata().and_then(|about| about.modified()).ok();
        std::cmp::Reverse((built.current, numbers, made))
    });
    found
}

/// The kernel to travel with: `wanted`, or the newest current one of the cache.
///
/// # Errors
/// When there is none.
pub fn find(wanted: Option<PathBuf>) -> Result<PathBuf, Failure> {
    if let Some(path) = wanted {
        return match path.is_file() {
            // The guest starts elsewhere.
            true => Ok(std::path::absolute(&path).unwrap_or(path)),
            false => Err(Failure::input(format!("--kernel {}: no such file", path.display()))
                .expected("a User-Mode Linux with CONFIG_UML_TIME_TRAVEL_SUPPORT")
                .help("leave it out to take the one that `blocklab kernel build` makes")),
        };
    }
    let built = all(&cache()?).into_iter().find(|built| built.current);
    built.map(|built| built.path).ok_or_else(|| {
        Failure::machine("there is no kernel to travel with").help("blocklab kernel build")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_of_todays_configuration_comes_first() {
        let name = format!("blocklab-kernels-{}", std::process::id());
        let cache = std::env::temp_dir().join(name);
        let old = format!("9.9.9+{}", "0".repeat(16));
        for folder in [folder_name("6.1.9"), folder_name("6.1.10"), old, "lock".into()] {
            std::fs::create_dir_all(cache.join(&folder)).unwrap();
            if folder != "lock" {
                std::fs::write(cache.join(&folder).join(KERNEL), b"").unwrap();
            }
        }
        let found = all(&cache);
        std::fs::remove_dir_all(&cache).unwrap();
        let versions: Vec<&str> = found.iter().map(|built| built.version.as_str()).collect();
        assert_eq!(versions, ["6.1.10", "6.1.9", "9.9.9"]);
        assert!(found[0].current && !found[2].current);
    }

    #[test]
    fn of_one_version_the_last_that_was_built_is_first() {
        let name = format!("blocklab-kernels-own-{}", std::process::id());
        let cache = std::env::temp_dir().join(name);
        let own = ["6.1.9~99", "6.1.9", "6.1.9~11"];
        for (version, hour) in own.iter().zip([1, 3, 2]) {
            let folder = cache.join(folder_name(version));
            std::fs::create_dir_all(&folder).unwrap();
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(3600 * hour);
            let kernel = std::fs::File::create(folder.join(KERNEL)).unwrap();
            kernel.set_modified(time).unwrap();
        }
        let found = all(&cache);
        std::fs::remove_dir_all(&cache).unwrap();
        let versions: Vec<&str> = found.iter().map(|built| built.version.as_str()).collect();
        assert_eq!(versions, ["6.1.9", "6.1.9~11", "6.1.9~99"]);
    }

    #[test]
    fn a_kernel_that_is_not_there_is_missed() {
        let failure = find(Some("no-such-kernel".into())).unwrap_err();
        assert!(failure.message.contains("no-such-kernel") && failure.exit_code() == 2);
    }
}
