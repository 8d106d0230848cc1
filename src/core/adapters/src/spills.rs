//! The directories in which handlers keep items on disk.

use std::path::PathBuf;
use std::time::Duration;

use mixer_delivery::Holds;
use mixer_engine::adapter::{BuildError, Env};

use crate::files::PENDING_READS;

/// How long a first look at a directory takes at most. One that takes longer is told once the handler is there.
const LOOK: Duration = Duration::from_secs(1);

/// Creates the directories of a handler, unless that is only tried.
///
/// Errors: one cannot be used, and no time makes that better. Otherwise the handler is built also while it cannot be used: nobody waits for a disk.
pub(crate) async fn prepare(directories: Vec<PathBuf>, env: &Env) -> Result<(), BuildError> {
    if env.commons.get::<Holds>().is_rehearsal() {
        return Ok(());
    }
    for directory in directories {
        let owned = directory.clone();
        let prepared = PENDING_READS.run(&directory, LOOK, move || mixer_delivery::prepare(&owned)).await;
        // It goes on if it is late.
        if let Ok(Err(error)) = prepared {
            let why = format!(
                "spillDirectory: {}: {error}: name a directory that the server can create and write to",
                directory.display()
            );
            return Err(BuildError::Invalid(vec![why]));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::testing::test_env;

    #[tokio::test]
    async fn a_directory_that_cannot_be_used_is_an_error_at_once() {
        let place = tempfile::tempdir().unwrap();
        let (file, link) = (place.path().join("file"), place.path().join("link"));
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let closed = place.path().join("closed");
        std::fs::create_dir(&closed).unwrap();
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o500)).unwrap();
        let env = test_env("h.istio-system");
        // Whoever may do anything may use it.
        let is_root = std::fs::write(closed.join("tried"), "").is_ok();
        let unusable = [file.clone(), file.join("below"), link].into_iter();
        for directory in unusable.chain((!is_root).then(|| closed.join("below"))) {
            let error = prepare(vec![place.path().join("good"), directory.clone()], &env).await.unwrap_err();
            let BuildError::Invalid(problems) = error else { panic!("{error}") };
            let [problem] = problems.as_slice() else { panic!("{problems:?}") };
            let start = format!("spillDirectory: {}: ", directory.display());
            assert!(problem.starts_with(&start) && problem.ends_with("can create and write to"), "{problem}");
        }
        assert!(place.path().join("good/lock").exists());
    }

    /// As on a file system that does not answer: a FIFO is opened once somebody reads it.
    #[tokio::test]
    async fn nobody_waits_for_a_directory_that_hangs() {
        let place = tempfile::tempdir().unwrap();
        let lock = place.path().join("lock");
        assert!(std::process::Command::new("mkfifo").arg(&lock).status().unwrap().success());
        let env = test_env("h.istio-system");
        let before = std::time::Instant::now();
        prepare(vec![place.path().to_owned()], &env).await.unwrap();
        assert!(
            before.elapsed() >= LOOK && before.elapsed() < Duration::from_secs(30),
            "{:?}",
            before.elapsed()
        );
        // It ends.
        let open = || std::fs::File::options().read(true).write(true).open(&lock);
        drop(open().unwrap());
    }
}
