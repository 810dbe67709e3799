//! The modules that a guest needs to find its disk, in the order in which they are loaded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use config::Failure;

use crate::image::{IMAGE_BYTES_MAX, kernel_payload, kernel_version, unpack_any};

/// What a disk of virtio and its file system are behind.
pub(crate) const OF_VIRTIO: [&str; 4] = ["virtio_pci", "virtio_blk", "crc32c_generic", "ext4"];
/// What any disk of a guest, and its file system, are behind.
pub(crate) const OF_ANY: [&str; 7] =
    ["virtio_pci", "virtio_blk", "nvme", "ahci", "sd_mod", "crc32c_generic", "ext4"];
/// Where those modules and what they need may be, below the folder of modules.
const FOLDERS: [&str; 12] = [
    "kernel/drivers/virtio",
    "kernel/drivers/block",
    "kernel/drivers/nvme/host",
    "kernel/drivers/nvme/common",
    "kernel/drivers/ata",
    "kernel/drivers/scsi",
    "kernel/block",
    "kernel/crypto",
    "kernel/lib",
    "kernel/fs",
    "kernel/fs/jbd2",
    "kernel/fs/ext4",
];
/// What a folder of modules has, at least one of them, also where all drivers are built in.
const SIGNS: [&str; 4] = ["kernel", "modules.order", "modules.builtin", "modules.dep"];

/// Files for the guest's archive: `modules/00-NAME` and so on. None for a kernel that has the
/// drivers built in.
pub(crate) fn find(
    wanted: &[&str],
    kernel: &Path,
    folder: Option<&Path>,
) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let file = read_kernel(kernel)?;
    let folder = match folder {
        Some(folder) => folder.to_path_buf(),
        None => beside(kernel, &file)?,
    };
    if !SIGNS.iter().any(|sign| folder.join(sign).exists()) {
        return Err(Failure::input(format!("{} holds no modules", folder.display()))
            .expected("the modules of this kernel, as in /lib/modules/VERSION")
            .help("name their folder: --modules DIR"));
    }
    in_order(wanted, &folder)
}

/// Those of `wanted` that are in `folder`, each behind what it needs.
fn in_order(wanted: &[&str], folder: &Path) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut there = BTreeMap::new();
    for part in FOLDERS {
        let entries = std::fs::read_dir(folder.join(part)).into_iter().flatten().flatten();
        there.extend(entries.filter_map(|entry| Some((name(&entry.path())?, entry.path()))));
    }
    let mut ordered = Vec::new();
    for wanted in wanted.iter().filter(|wanted| there.contains_key(**wanted)) {
        add(wanted, &there, &mut ordered)?;
    }
    let name = |(index, (name, bytes)): (usize, (String, Vec<u8>))| {
        (format!("modules/{index:02}-{name}.ko"), bytes)
    };
    Ok(ordered.into_iter().enumerate().map(name).collect())
}

/// A kernel that a machine can start.
fn read_kernel(kernel: &Path) -> Result<Vec<u8>, Failure> {
    let file = study::read_bytes(kernel, IMAGE_BYTES_MAX)
        .map_err(|why| Failure::input(format!("kernel {}: {why}", kernel.display())))?;
    kernel_payload(&file).map_err(|why| why.of(kernel.display()))?;
    Ok(file)
}

/// Where a package has the modules of its kernel.
fn beside(kernel: &Path, file: &[u8]) -> Result<PathBuf, Failure> {
    let version = kernel_version(file).ok_or_else(|| {
        Failure::input(format!("{}: its version cannot be told", kernel.display()))
            .help("name the folder of its modules: --modules DIR")
    })?;
    let root = kernel.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let found = ["lib/modules", "usr/lib/modules"].map(|part| root.join(part).join(version));
    found.clone().into_iter().find(|path| path.is_dir()).ok_or_else(|| {
        Failure::input(format!("no modules of Linux {version} in {}", found[0].display()))
            .help("name their folder: --modules DIR")
    })
}

/// The name of a module, whose file may be packed.
fn name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let (name, rest) = file.split_once(".ko")?;
    (rest.is_empty() || rest.starts_with('.')).then(|| name.replace('-', "_"))
}

/// Add a module behind those that it needs.
fn add(
    name: &str,
    there: &BTreeMap<String, PathBuf>,
    ordered: &mut Vec<(String, Vec<u8>)>,
) -> Result<(), Failure> {
    // One that is missing is built in.
    let Some(path) = there.get(name) else { return Ok(()) };
    if ordered.iter().any(|(known, _)| known == name) {
        return Ok(());
    }
    let wrong = |why: String| Failure::input(format!("module {}: {why}", path.display()));
    let bytes = std::fs::read(path).map_err(|why| wrong(why.to_string()))?;
    let bytes = unpack_any(bytes)?;
    let depends = depends(&bytes).ok_or_else(|| wrong("it does not say what it needs".into()))?;
    for needed in depends.split(',').filter(|needed| !needed.is_empty()) {
        if needed == name || ordered.len() > 64 {
            return Err(wrong(format!("it needs `{needed}`")));
        }
        add(&needed.replace('-', "_"), there, ordered)?;
    }
    ordered.push((name.to_string(), bytes));
    Ok(())
}

/// What a module says it needs, in its section `.modinfo`.
fn depends(module: &[u8]) -> Option<&str> {
    const KEY: &[u8] = b"\0depends=";
    let at = module.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let rest = &module[at..];
    std::str::from_utf8(&rest[..rest.iter().position(|byte| *byte == 0)?]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_behind_what_they_need() {
        let folder = attach::PrivateFolder::new().unwrap();
        let write = |file: &str, depends: &str| {
            let path = folder.path.join("kernel/drivers").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("x\0depends={depends}\0y")).unwrap();
        };
        write("virtio/virtio.ko", "virtio_ring");
        write("virtio/virtio_ring.ko", "");
        write("virtio/virtio_pci.ko", "virtio-ring,virtio");
        write("virtio/virtio_mem.ko", "virtio");
        write("block/virtio_blk.ko", "virtio,virtio_ring,built_in");
        let of = || in_order(&OF_VIRTIO, &folder.path);
        let found = of().unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "modules/00-virtio_ring.ko",
                "modules/01-virtio.ko",
                "modules/02-virtio_pci.ko",
                "modules/03-virtio_blk.ko"
            ]
        );
        write("virtio/virtio_ring.ko", "virtio_ring");
        assert!(of().is_err());
    }
}
