//! Controlled nodes in a process of their own: the `rtwire` command as users start it, and the plainest node, in C.

use rtwire_benches::{compiled, rtwire, within};
use rtwire_testkit::Side;
use std::process::{Child, Command, Stdio};

const PLAIN: &str = include_str!("plain_node.c");

/// A node that runs in a namespace, and is ended by its own id when this is dropped.
pub(crate) struct Apart {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Apart {
    /// Starts `rtwire powerlink cn` behind the interface of `side`, with this project.
    pub(crate) fn command(side: &Side, project: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cn.toml");
        std::fs::write(&file, project).unwrap();
        let mut command = within(&side.namespace);
        // Its last words tell that it was ended.
        command
            .arg(rtwire())
            .args(["powerlink", "cn"])
            .arg(&file)
            .stderr(Stdio::null());
        Self::started(command, folder)
    }

    /// Compiles the plain node, and starts it behind the interface of `side`.
    pub(crate) fn plain(side: &Side, node: u8, priority: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = compiled(folder.path(), "powerlink/plain_node.c", PLAIN);
        let mut command = within(&side.namespace);
        command
            .arg(program)
            .args([&side.interface, &node.to_string(), &priority.to_string()]);
        Self::started(command, folder)
    }

    /// The process id of the node.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    fn started(mut command: Command, folder: tempfile::TempDir) -> Self {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            child,
            _folder: folder,
        }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let id = self.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &id]).status();
        let _ = self.child.wait();
    }
}
