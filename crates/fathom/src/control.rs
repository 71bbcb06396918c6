//! A process that runs is spoken to over a socket of its owner: a line with a request, and back
//! `ok` or `failed: why`, and what was asked for behind it.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::stat::{Mode, umask};

/// A client that sends its request slower than this is not waited for.
const PATIENCE: Duration = Duration::from_millis(500);
/// An answer may take so long: tables may have to be taken away before it.
const ANSWER: Duration = Duration::from_secs(30);
/// The longest request, in bytes.
const LONGEST: u64 = 512;

/// The socket of a process that runs.
pub(crate) struct Control {
    listener: UnixListener,
    path: PathBuf,
}

/// A request, and who waits for its answer.
pub(crate) struct Asked {
    pub(crate) line: String,
    stream: UnixStream,
}

impl Control {
    /// Opens it, for its owner only. A socket that is there was left behind, unless somebody
    /// answers.
    ///
    /// # Errors
    /// When something else is there, when another process has it, or when it cannot be made.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let failed = || format!("cannot open the socket {}", path.display());
        if let Ok(found) = fs::symlink_metadata(path) {
            if !found.file_type().is_socket() {
                bail!(
                    "{} is there, and is no socket: name another path",
                    path.display()
                );
            }
            if UnixStream::connect(path).is_ok() {
                bail!(
                    "another process has the socket {}: end it, or name another path",
                    path.display()
                );
            }
            fs::remove_file(path).with_context(failed)?;
        }
        let before = umask(Mode::from_bits_truncate(0o177));
        let listener = UnixListener::bind(path);
        umask(before);
        let listener = listener.with_context(failed)?;
        listener.set_nonblocking(true).with_context(failed)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
        })
    }

    /// The next request that has come.
    pub(crate) fn next(&self) -> Option<Asked> {
        while let Ok((stream, _)) = self.listener.accept() {
            // A client that goes away needs no answer.
            if let Ok(line) = read_line(&stream) {
                return Some(Asked { line, stream });
            }
        }
        None
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn read_line(stream: &UnixStream) -> io::Result<String> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(LONGEST)).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

impl Asked {
    /// Answers, and hangs up. A client that has gone away needs no answer.
    pub(crate) fn answer(mut self, answer: Result<Vec<u8>, String>) {
        let _ = match answer {
            Ok(text) => self.stream.write_all(&[b"ok\n", &text[..]].concat()),
            Err(why) => writeln!(self.stream, "failed: {why}"),
        };
    }

    /// Says that it was understood; what was asked for follows on the stream.
    ///
    /// # Errors
    /// When the client has gone away.
    pub(crate) fn accept(mut self) -> io::Result<UnixStream> {
        self.stream.write_all(b"ok\n")?;
        Ok(self.stream)
    }
}

/// Asks the process that runs, which is called `who`. What it gives is read from what is returned.
/// `None`: none runs.
///
/// # Errors
/// When it cannot be asked, or refuses.
pub(crate) fn ask(path: &Path, who: &str, line: &str) -> anyhow::Result<Option<impl Read + use<>>> {
    let mut stream = match UnixStream::connect(path) {
        Ok(stream) => stream,
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused
            ) =>
        {
            return Ok(None);
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot use the socket {}", path.display()));
        }
    };
    let failed = || format!("cannot speak to the {who} at {}", path.display());
    stream.set_read_timeout(Some(ANSWER)).with_context(failed)?;
    writeln!(stream, "{line}").with_context(failed)?;
    let mut answer = BufReader::new(stream);
    let mut first = String::new();
    answer.read_line(&mut first).with_context(failed)?;
    match first.trim_end() {
        "ok" => {
            // What follows takes its time.
            answer
                .get_ref()
                .set_read_timeout(None)
                .with_context(failed)?;
            Ok(Some(answer))
        }
        "" => bail!("the {who} at {} ended before it answered", path.display()),
        refusal => bail!("the {who} says: {}", refusal.trim_start_matches("failed: ")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    use super::*;

    fn text(path: &Path, line: &str) -> anyhow::Result<Option<String>> {
        let answer = ask(path, "agent", line)?;
        let read = answer.map(io::read_to_string).transpose();
        read.map_err(anyhow::Error::from)
    }

    #[test]
    fn only_the_owner_may_ask_and_has_an_answer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        assert!(text(&path, "stop").unwrap().is_none());
        let control = Control::open(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let asked = thread::spawn({
            let path = path.clone();
            move || ["status json", "drain x"].map(|line| text(&path, line))
        });
        let mut answered = 0;
        while answered < 2 {
            let Some(asked) = control.next() else {
                thread::yield_now();
                continue;
            };
            answered += 1;
            let answer = match asked.line.as_str() {
                "status json" => Ok(b"{}\n".to_vec()),
                _ => Err("there is no server \"x\"".to_owned()),
            };
            asked.answer(answer);
        }
        let [known, unknown] = asked.join().unwrap();
        assert_eq!(known.unwrap().as_deref(), Some("{}\n"));
        let told = unknown.unwrap_err().to_string();
        assert_eq!(told, "the agent says: there is no server \"x\"");
        drop(control);
        assert!(!path.exists());
    }

    #[test]
    fn a_path_that_is_in_use_stays_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "of somebody").unwrap();
        assert!(Control::open(&file).is_err() && file.exists());
        let path = directory.path().join("socket");
        let control = Control::open(&path).unwrap();
        let told = Control::open(&path).err().unwrap().to_string();
        assert!(told.contains("another process has the socket"), "{told}");
        // As one that was killed leaves it.
        std::mem::forget(control.listener.try_clone().unwrap());
        drop(UnixListener::bind(directory.path().join("left")).unwrap());
        assert!(Control::open(&directory.path().join("left")).is_ok());
    }
}
