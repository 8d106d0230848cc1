//! Which process listens on a port or a unix socket, from what Linux tells in `/proc`.

use std::collections::HashSet;
use std::path::Path;

use mixer_engine::runtime::ProcessUser;

/// The state of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// The flags of a listening socket in `/proc/net/unix`.
const ACCEPTS: &str = "00010000";

/// Whether processes other than those that have the sockets `some` have `others`; `None` if that cannot be told, as of the processes of
/// another user.
pub(super) fn is_of_another(some: &HashSet<String>, others: &HashSet<String>) -> Option<bool> {
    Some(owners(some)?.is_disjoint(&owners(others)?))
}

/// The inodes of the unix sockets that listen at a path, or did before their file was renamed to it.
pub(super) fn of_path(path: &str) -> HashSet<String> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    listening_at(&table, path).map(str::to_owned).collect()
}

fn listening_at<'t>(table: &'t str, path: &str) -> impl Iterator<Item = &'t str> {
    // A server with --socket-mode binds `PATH.PID`.
    let is_path = move |bound: &str| {
        bound.strip_prefix(path).is_some_and(|rest| {
            let process = rest.strip_prefix('.').unwrap_or("x");
            rest.is_empty() || process.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    table.lines().skip(1).filter_map(move |line| {
        let mut columns = line.split_ascii_whitespace();
        let is_listening = columns.nth(3)? == ACCEPTS;
        let inode = columns.nth(2)?;
        let (_, bound) = line.split_once(&format!(" {inode} "))?;
        (is_listening && is_path(bound)).then_some(inode)
    })
}

/// The inodes of the sockets that listen on a port.
pub(super) fn of_port(port: u16) -> HashSet<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
    tables.iter().flatten().flat_map(|table| listening(table, port)).collect()
}

fn listening(table: &str, port: u16) -> impl Iterator<Item = String> {
    table.lines().skip(1).filter_map(move |line| {
        let mut columns = line.split_ascii_whitespace();
        let (_, local) = columns.nth(1)?.rsplit_once(':')?;
        let is_listening = columns.nth(1)? == LISTENING;
        let inode = columns.nth(5)?;
        (is_listening && u16::from_str_radix(local, 16) == Ok(port)).then(|| inode.to_owned())
    })
}

/// The user whose process has one of these sockets; `None` if that cannot be told, or several users have one.
pub(super) fn user_of(inodes: &HashSet<String>) -> Option<ProcessUser> {
    // The owner of `/proc/PID` is root where a process has capabilities of its file.
    let status = |id: u32| std::fs::read_to_string(format!("/proc/{id}/status")).ok();
    let users = owners(inodes)?.into_iter().filter_map(status);
    let mut users = users.filter_map(|status| process_user(&status));
    let user = users.next()?;
    users.all(|other| other.id == user.id).then_some(user)
}

/// The effective user and all groups, from `/proc/PID/status`.
fn process_user(status: &str) -> Option<ProcessUser> {
    let numbers = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(
            line.split_ascii_whitespace().filter_map(|number| number.parse::<u32>().ok()).collect::<Vec<_>>(),
        )
    };
    // The real one, the effective one, and others.
    let effective = |name| numbers(name)?.get(1).copied();
    let mut groups = numbers("Groups").unwrap_or_default();
    groups.extend(effective("Gid"));
    Some(ProcessUser { id: effective("Uid")?, groups })
}

/// The processes that have one of these sockets; `None` if none is found, as without the right to look.
fn owners(inodes: &HashSet<String>) -> Option<HashSet<u32>> {
    let links: HashSet<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let has_one = |process: &Path| {
        let Ok(open) = std::fs::read_dir(process.join("fd")) else { return false };
        let mut targets = open.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
        targets.any(|target| target.to_str().is_some_and(|target| links.contains(target)))
    };
    let processes = std::fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse::<u32>().ok()?;
        has_one(&entry.path()).then_some(id)
    });
    let found: HashSet<u32> = processes.collect();
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn listening_sockets_are_found_by_their_port() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             \x20  0: 0100007F:A5B6 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0000\n\
             \x20  1: 0100007F:A5B6 0100007F:1234 01 00000000:00000000 00:00000000 00000000     0        0 777 1 0000\n";
        assert_eq!(listening(table, 42422).collect::<Vec<_>>(), ["12345"]);
        assert_eq!(listening(table, 42423).count(), 0);
    }

    #[test]
    fn unix_sockets_are_found_by_their_path() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
             00000000eb1ae6e0: 00000002 00000000 00010000 0001 01 12345 /run/api.sock\n\
             00000000eb1ae6e1: 00000002 00000000 00010000 0001 01 12346 /run/api.sock.4711\n\
             00000000eb1ae6e2: 00000003 00000000 00000000 0001 03 12347 /run/api.sock\n\
             00000000eb1ae6e3: 00000002 00000000 00010000 0001 01 12348 /run/api.sock1\n\
             00000000eb1ae6e4: 00000002 00000000 00010000 0001 01 12349\n\
             00000000eb1ae6e5: 00000002 00000000 00010000 0001 01 12350 /run/my api.sock\n";
        assert_eq!(listening_at(table, "/run/api.sock").collect::<Vec<_>>(), ["12345", "12346"]);
        assert_eq!(listening_at(table, "/run/my api.sock").collect::<Vec<_>>(), ["12350"]);
    }

    #[test]
    fn a_unix_socket_of_this_process_is_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api.sock");
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let monitoring = of_port(port.local_addr().unwrap().port());
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let path = path.display().to_string();
        assert_eq!(is_of_another(&monitoring, &of_path(&path)), Some(false));
        drop(listener);
        assert_eq!(is_of_another(&monitoring, &of_path(&path)), None);
    }

    #[test]
    fn the_sockets_of_one_process_are_its_own() {
        let bind = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (first, second) = (bind(), bind());
        let port = |listener: &std::net::TcpListener| listener.local_addr().unwrap().port();
        assert_eq!(is_of_another(&of_port(port(&first)), &of_port(port(&second))), Some(false));
        assert_eq!(owners(&of_port(port(&first))), Some(HashSet::from([std::process::id()])));
        let own = std::fs::metadata("/proc/self").unwrap().uid();
        assert_eq!(user_of(&of_port(port(&first))).map(|user| user.id), Some(own));
    }

    #[test]
    fn the_rights_of_a_process_are_those_of_its_effective_user() {
        let status = "Name:\tmixer\nUid:\t0\t65532\t0\t0\nGid:\t0\t65531\t0\t0\nFDSize:\t64\nGroups:\t4 27 \nNStgid:\t1\n";
        let user = ProcessUser { id: 65_532, groups: vec![4, 27, 65_531] };
        assert_eq!(process_user(status), Some(user));
        assert_eq!(process_user("Name:\tmixer\n"), None);
    }

    #[test]
    fn a_socket_of_another_process_is_told() {
        let own = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let script = "import socket,sys; s=socket.create_server(('127.0.0.1',0)); print(s.getsockname()[1],flush=True); sys.stdin.read()";
        let mut other = std::process::Command::new("python3")
            .args(["-c", script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = other.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
        let port = line.trim().parse().unwrap();
        let own = own.local_addr().unwrap().port();
        assert_eq!(is_of_another(&of_port(own), &of_port(port)), Some(true));
        drop(other.stdin.take());
        other.wait().unwrap();
    }
}
