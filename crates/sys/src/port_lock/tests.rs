//! A name has one holder at a time, in each network namespace, and none when its process has ended.

use super::*;
use crate::ErrorKind;
use rtwire_testkit::{NetnsPair, require};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// A folder of this test alone, removed at the end.
struct Own(PathBuf);

impl Own {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("rtwlock-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        Self(path)
    }

    fn set_mode(&self, mode: u32) {
        std::fs::set_permissions(&self.0, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn files(&self) -> usize {
        let all = std::fs::read_dir(&self.0).unwrap();
        all.filter(|entry| entry.as_ref().unwrap().file_name() != ".guard")
            .count()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn unique(name: &str) -> String {
    format!("rtwire-lock-test/{name}/{}", std::process::id())
}

#[test]
fn a_name_has_one_holder_at_a_time() {
    require!(root);
    let name = unique("one");
    assert!(!is_held(&name).unwrap());
    let held = NameLock::take(&name).unwrap();
    for _ in 0..100 {
        assert!(is_held(&name).unwrap());
    }
    let taken = NameLock::take(&name).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::InUse, "{taken}");
    drop(held);
    assert!(!is_held(&name).unwrap());
    NameLock::take(&name).unwrap();
}

#[test]
fn a_name_let_go_is_had_although_a_forked_process_still_has_its_file() {
    require!(root);
    let name = unique("copy");
    let held = NameLock::take(&name).unwrap();
    let copy = held.file.try_clone().unwrap();
    drop(held);
    assert!(!is_held(&name).unwrap());
    let again = NameLock::take(&name).unwrap();
    drop(copy);
    assert!(is_held(&name).unwrap());
    drop(again);
}

#[test]
fn a_process_keeps_its_names_when_somebody_empties_the_folder() {
    let own = Own::new("emptied");
    let folder = Folder::checked(&own.0).unwrap().unwrap();
    let held = NameLock::take_in(&folder, "kept", PATIENCE).unwrap();
    for file in std::fs::read_dir(&own.0).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    let is_held = || is_held_in(&folder, &file_name("kept").unwrap()).unwrap();
    assert!(is_held());
    for _ in 0..2 {
        let taken = NameLock::take_in(&folder, "kept", PATIENCE).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::InUse, "{taken}");
    }
    drop(held);
    assert!(!is_held());
    NameLock::take_in(&folder, "kept", PATIENCE).unwrap();
}

/// A process that is forked, and executes no other program, has a copy of everything.
#[test]
fn a_forked_process_lets_no_name_of_its_parent_go() {
    let own = Own::new("forked");
    let folder = Folder::checked(&own.0).unwrap().unwrap();
    let held = NameLock::take_in(&folder, "forked", PATIENCE).unwrap();
    // SAFETY: the child only drops a value, and ends without running anything of its parent's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = i32::from(held.is_own());
        drop(held);
        // SAFETY: it ends the process at once.
        unsafe { libc::_exit(code) }
    }
    assert!(child > 0);
    let mut status = -1;
    // SAFETY: `status` is a valid place, and the child is our own.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert!(held.path.exists());
    let taken = NameLock::take_in(&folder, "forked", PATIENCE).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::InUse, "{taken}");
    drop(held);
    NameLock::take_in(&folder, "forked", PATIENCE).unwrap();
}

#[test]
fn each_network_namespace_has_names_of_its_own() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let name = unique("namespaces");
    let in_a = pair.a.run(|| NameLock::take(&name)).unwrap();
    assert!(!pair.b.run(|| is_held(&name)).unwrap());
    let in_b = pair.b.run(|| NameLock::take(&name)).unwrap();
    drop(in_a);
    assert!(!pair.a.run(|| is_held(&name)).unwrap());
    assert!(pair.b.run(|| is_held(&name)).unwrap());
    drop(in_b);
}

/// Threads take one name in turn, while it is released and its file removed each time.
#[test]
fn a_race_for_a_name_has_one_winner() {
    let own = Own::new("race");
    use std::sync::atomic::Ordering::SeqCst;
    let holders = std::sync::atomic::AtomicU32::new(0);
    let won = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let folder = Folder::checked(&own.0).unwrap().unwrap();
                while won.load(SeqCst) < 2000 {
                    let Ok(lock) = NameLock::take_in(&folder, "race", PATIENCE) else {
                        continue;
                    };
                    assert_eq!(holders.fetch_add(1, SeqCst), 0, "two hold the name");
                    won.fetch_add(1, SeqCst);
                    // Long enough for another thread to look meanwhile.
                    std::thread::sleep(Duration::from_micros(20));
                    holders.fetch_sub(1, SeqCst);
                    drop(lock);
                    if won.load(SeqCst) % 64 == 0 {
                        folder.clear();
                    }
                }
            });
        }
    });
    assert_eq!(own.files(), 0);
}

/// Holds a name until it is killed, and leaves a process behind that it has started.
#[test]
#[ignore = "run by the next test"]
fn child_that_holds_a_name() {
    let name = std::env::var("RTWIRE_TEST_NAME").unwrap();
    let _held = NameLock::take(&name).unwrap();
    let mut orphan = Command::new("sh")
        .args(["-c", "echo begun; exec sleep 60"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The kernel closes its copy of the lock's descriptor only on the way into its program, and `spawn` may return before.
    let mut begun = String::new();
    BufReader::new(orphan.stdout.take().unwrap())
        .read_line(&mut begun)
        .unwrap();
    assert_eq!(begun, "begun\n");
    println!("\nHOLDS {}", orphan.id());
    orphan.wait().unwrap();
}

#[test]
fn a_killed_process_holds_nothing_and_its_file_is_removed() {
    require!(root, program "sleep");
    let name = unique("killed");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "port_lock::tests::child_that_holds_a_name"])
        .args(["--ignored", "--nocapture"])
        .env("RTWIRE_TEST_NAME", &name)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let orphan = lines
        .find_map(|line| {
            line.unwrap()
                .strip_prefix("HOLDS ")
                .map(|id| id.parse::<i32>())
        })
        .unwrap()
        .unwrap();
    assert!(is_held(&name).unwrap());
    assert_eq!(NameLock::take(&name).unwrap_err().kind(), ErrorKind::InUse);
    child.kill().unwrap();
    child.wait().unwrap();
    // SAFETY: all arguments are numbers; the process is the one that our child has started.
    let alive = unsafe { libc::kill(orphan, 0) } == 0;
    let held = is_held(&name).unwrap();
    let left = Path::new(FOLDER).join(file_name(&name).unwrap());
    // The killed process could not remove its file. Another process may just be removing it.
    let begun = std::time::Instant::now();
    while left.exists() && begun.elapsed() < Duration::from_secs(5) {
        Folder::there().unwrap().unwrap().clear();
    }
    let cleared = !left.exists();
    let taken = NameLock::take(&name);
    // SAFETY: as above.
    unsafe { libc::kill(orphan, libc::SIGKILL) };
    assert!(alive && !held && cleared);
    taken.unwrap();
}

#[test]
fn leftovers_are_removed_and_held_names_are_not() {
    let own = Own::new("leftovers");
    let folder = Folder::checked(&own.0).unwrap().unwrap();
    let held = NameLock::take_in(&folder, "held", PATIENCE).unwrap();
    std::fs::write(own.0.join("left"), "").unwrap();
    assert_eq!(own.files(), 2);
    folder.clear();
    assert_eq!(own.files(), 1);
    assert!(held.path.exists());
    drop(held);
    assert_eq!(own.files(), 0);
}

/// Locks the guard as a process does that removes leftovers.
fn removes_leftovers(own: &Own) -> File {
    let guard = Folder::checked(&own.0).unwrap().unwrap();
    let guard = guard.open(&own.0.join(".guard")).unwrap();
    request(&guard, libc::F_OFD_SETLK, libc::F_WRLCK).unwrap();
    guard
}

/// Takes a name in another thread; returns the result and the time that it took. Fails if that takes 10 s.
fn taken_in_time(own: &Own, patience: Duration) -> (Result<NameLock>, Duration) {
    let folder = Folder::checked(&own.0).unwrap().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let begun = std::time::Instant::now();
    std::thread::spawn(move || tell.send(NameLock::take_in(&folder, "late", patience)));
    let taken = told.recv_timeout(Duration::from_secs(10));
    (taken.expect("it waits for ever"), begun.elapsed())
}

/// The process may be stopped while it has the guard: then nobody waits for it for ever.
#[test]
fn nobody_waits_long_for_a_process_that_removes_leftovers() {
    let own = Own::new("stuck");
    let guard = removes_leftovers(&own);
    for patience in [Duration::ZERO, PATIENCE] {
        let (taken, time) = taken_in_time(&own, patience);
        let refused = taken.unwrap_err();
        let most = patience + Duration::from_secs(3);
        assert!(time >= patience && time < most, "{time:?}");
        assert_eq!(refused.kind(), ErrorKind::Other, "the name itself is free");
        let text = refused.to_string();
        assert!(text.contains("stuck") && text.contains(".guard"), "{text}");
        assert!(text.contains("fuser"), "{text}");
    }
    // A process that is done in time costs only a wait.
    let done = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        drop(guard);
    });
    taken_in_time(&own, PATIENCE).0.unwrap();
    done.join().unwrap();
}

/// Takes a name in the folder of the environment, and says how that went.
#[test]
#[ignore = "run by other tests"]
fn child_that_takes_a_name() {
    let path = std::env::var("RTWIRE_TEST_FOLDER").unwrap();
    let taken =
        Folder::made(Path::new(&path)).and_then(|folder| NameLock::take_in(&folder, "a", PATIENCE));
    match taken {
        Ok(_) => println!("\nTOOK it"),
        Err(error) => println!("\nREFUSED {error}"),
    }
}

/// Returns the words of the process above, started by `command` in this folder.
fn told_by(command: &mut Command, folder: &Path) -> String {
    let output = command
        .args(["--exact", "port_lock::tests::child_that_takes_a_name"])
        .args(["--ignored", "--nocapture"])
        .env("RTWIRE_TEST_FOLDER", folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = |line: &&str| line.starts_with("TOOK") || line.starts_with("REFUSED");
    text.lines().find(told).unwrap_or(&text).to_owned()
}

/// Root used the folder before it was made for a group.
#[test]
fn a_folder_is_opened_to_a_group_after_root_has_used_it() {
    require!(root);
    const GROUP: u32 = 65534;
    let user = |own: &Own| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        told_by(command.uid(GROUP).gid(GROUP), &own.0)
    };
    let used_by_root = |name| {
        let own = Own::new(name);
        let folder = Folder::checked(&own.0).unwrap().unwrap();
        let held = NameLock::take_in(&folder, "root", PATIENCE).unwrap();
        assert!(user(&own).starts_with("REFUSED"));
        chown(&own.0, None, Some(GROUP)).unwrap();
        own.set_mode(0o2770);
        // The folder alone does not help: the files in it are still root's.
        let refused = user(&own);
        assert!(
            refused.contains(".guard") && refused.contains("find /run"),
            "{refused}"
        );
        (own, held)
    };

    // The next process of root that takes a lock opens the guard to the group.
    let (own, _held) = used_by_root("group");
    let folder = Folder::checked(&own.0).unwrap().unwrap();
    let again = NameLock::take_in(&folder, "again", PATIENCE).unwrap();
    let there = again.file.metadata().unwrap();
    assert_eq!((there.gid(), there.mode() & 0o777), (GROUP, 0o660));
    assert_eq!(user(&own), "TOOK it");

    // So does the command of the message, also for the locks that are held.
    let (own, held) = used_by_root("remedy");
    let commands = folder::REMEDY.split('`').skip(1).step_by(2);
    let document = include_str!("../../../../docs/receive-program.md");
    for command in commands {
        assert!(document.contains(command), "the document lacks `{command}`");
        let command = command.replace("/run/rtwire", own.0.to_str().unwrap());
        let command = command.replace("GROUP", &GROUP.to_string());
        let done = Command::new("sh").args(["-c", &command]).status().unwrap();
        assert!(done.success(), "{command}");
    }
    let there = held.file.metadata().unwrap();
    assert_eq!((there.gid(), there.mode() & 0o777), (GROUP, 0o660));
    assert_eq!(user(&own), "TOOK it");

    // A file that has another name elsewhere is none of ours, and stays as it is.
    let elsewhere = Own::new("elsewhere");
    let target = elsewhere.0.join("target");
    std::fs::write(&target, "").unwrap();
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o600)).unwrap();
    let linked = folder.path(&file_name("linked").unwrap());
    std::fs::hard_link(&target, linked).unwrap();
    let _ = NameLock::take_in(&folder, "linked", PATIENCE);
    let there = target.metadata().unwrap();
    assert_eq!((there.gid(), there.mode() & 0o777), (0, 0o600));
}

/// A message says what to do.
#[test]
fn a_folder_that_cannot_be_used_is_told_with_a_remedy() {
    require!(root, program "unshare", program "mount");
    let own = Own::new("remedies");
    let refused = Folder::made(&own.0.join("none/below")).unwrap_err();
    assert_eq!(refused.errno(), Errno(libc::ENOENT));
    assert!(refused.to_string().contains("install -d"), "{refused}");

    let script =
        "mount -t tmpfs -o ro,mode=700 rtwtest \"$RTWIRE_TEST_FOLDER\" && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]);
    let refused = told_by(command.arg(std::env::current_exe().unwrap()), &own.0);
    assert!(refused.contains("Read-only"), "{refused}");
    assert!(refused.contains("ReadWritePaths=/run/rtwire"), "{refused}");
}

/// Nobody but the owner and its group may reach a lock.
#[test]
fn a_folder_that_others_could_use_is_refused() {
    require!(root);
    let own = Own::new("modes");
    for (mode, files) in [
        (0o700, Some(0o600)),
        (0o755, Some(0o600)),
        (0o2770, Some(0o660)),
        (0o777, None),
        (0o1777, None),
    ] {
        own.set_mode(mode);
        let folder = Folder::checked(&own.0);
        let Some(files) = files else {
            let refused = folder.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Permission, "{mode:o}: {refused}");
            assert!(refused.to_string().contains("chmod o-rwx"), "{refused}");
            continue;
        };
        let lock = NameLock::take_in(&folder.unwrap().unwrap(), "mode", PATIENCE).unwrap();
        let there = lock.file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(there, files, "{mode:o}");
    }
    own.set_mode(0o700);
    chown(&own.0, Some(65534), None).unwrap();
    let refused = Folder::checked(&own.0).unwrap_err();
    assert!(refused.to_string().contains("chown root"), "{refused}");
    chown(&own.0, Some(0), None).unwrap();

    // A link could lead to a folder of somebody else.
    let link = own.0.join("link");
    symlink("/tmp", &link).unwrap();
    assert_eq!(
        Folder::checked(&link).unwrap_err().errno(),
        Errno(libc::ENOTDIR)
    );
    // And a file that is a link is no lock.
    let folder = Folder::checked(&own.0).unwrap().unwrap();
    let target = own.0.join("target");
    std::fs::write(&target, "").unwrap();
    symlink(&target, folder.path(&file_name("linked").unwrap())).unwrap();
    assert!(NameLock::take_in(&folder, "linked", PATIENCE).is_err());
    // A missing folder is made for its owner alone.
    let made = own.0.join("made");
    Folder::made(&made).unwrap();
    assert_eq!(
        made.metadata().unwrap().permissions().mode() & 0o7777,
        0o700
    );
}
