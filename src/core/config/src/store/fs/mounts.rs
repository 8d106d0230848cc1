//! What is mounted below a directory, of which no file event tells.

use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// The mounts that the process sees, one a line.
const MOUNTS: &str = "/proc/self/mountinfo";
/// Most mounts that are told apart.
const MAX_MOUNTS: usize = 1024;

/// A directory or file over which something is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) path: PathBuf,
    /// Its number, and what is mounted: device, and the directory or file of it. A number is given again once it is free.
    what: Vec<Vec<u8>>,
}

/// The mounts below a directory, by its canonical path, in their order; none where the system does not tell. Cost: reads a file of the kernel, of
/// some hundred bytes for each mount of the system.
pub(super) fn below(root: Option<&Path>) -> Vec<Mount> {
    let Some(root) = root else { return Vec::new() };
    std::fs::read(MOUNTS).map_or_else(|_| Vec::new(), |table| parse(&table, root))
}

/// Number, parent, device, root, path, …: <https://docs.kernel.org/filesystems/proc.html>, 3.5.
fn parse(table: &[u8], root: &Path) -> Vec<Mount> {
    let mount = |line: &[u8]| {
        let mut fields = line.split(|byte| *byte == b' ');
        let [number, _, device, from, at] = std::array::from_fn(|_| fields.next().unwrap_or_default());
        let path = unescaped(at);
        let what = || [number, device, from].map(<[u8]>::to_vec).into();
        (path.starts_with(root) && path != root).then(|| Mount { path, what: what() })
    };
    table.split(|byte| *byte == b'\n').filter_map(mount).take(MAX_MOUNTS).collect()
}

/// A path in which blanks, line feeds, tabs and backslashes are written as octal numbers.
fn unescaped(path: &[u8]) -> PathBuf {
    let (mut plain, mut rest) = (Vec::with_capacity(path.len()), path);
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *byte == b'\\');
        let code = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        plain.push(code.unwrap_or(*byte));
        rest = if code.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    PathBuf::from(std::ffi::OsString::from_vec(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_a_directory_are_found() {
        let table = b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            31 22 8:1 /a /etc/conf rw - ext4 /dev/sda1 rw\n\
            32 31 8:1 /b.yaml /etc/conf/b.yaml rw - ext4 /dev/sda1 rw\n\
            33 31 0:5 / /etc/conf/a\\040b\\134c ro - tmpfs tmpfs rw\n\
            34 22 8:1 /x /etc/config rw - ext4 /dev/sda1 rw\n\
            strange\n";
        let found = |root: &str| {
            let mounts = parse(table, Path::new(root));
            mounts
                .into_iter()
                .map(|mount| (mount.path.display().to_string(), mount.what.join(&b' ')))
                .collect::<Vec<_>>()
        };
        let mount = |path: &str, what: &str| (path.to_owned(), what.as_bytes().to_vec());
        let expected = [mount("/etc/conf/b.yaml", "32 8:1 /b.yaml"), mount("/etc/conf/a b\\c", "33 0:5 /")];
        assert_eq!(found("/etc/conf"), expected);
        assert_eq!(found("/none"), []);
        // Another directory is mounted in the place of one, with the number of that.
        let [one, other] = [b"31 22 8:1 /a /etc/conf/v rw\n", b"31 22 8:1 /b /etc/conf/v rw\n"];
        assert_ne!(parse(one, Path::new("/etc/conf")), parse(other, Path::new("/etc/conf")));
        assert_eq!(unescaped(b"a\\04"), Path::new("a\\04"));
        assert!(below(None).is_empty());
        if cfg!(target_os = "linux") {
            assert!(!below(Some(Path::new("/"))).is_empty(), "/proc is mounted");
        }
    }
}
