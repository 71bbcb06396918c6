//! A thread that writes, so measuring does not wait for a slow disk or a reader that pauses.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::signals::Signals;

/// A pipe takes so much whole or not at all (`PIPE_BUF` on Linux).
const WHOLE_IN_PIPE_BYTES: usize = 4096;
/// Buffers that are kept to be filled again: one is filled while the other is written.
const SPARE: usize = 2;
/// How often a wait looks for signals.
const LOOK: Duration = Duration::from_millis(50);
/// Once the process is to end, a reader that takes nothing for so long is given up.
const PATIENCE: Duration = Duration::from_secs(2);

/// The thread's other end.
pub(super) struct Writer {
    shared: Arc<Shared>,
    waiting_bytes_max: usize,
    may_wait: bool,
    /// Lines for which there was no room.
    lost_lines: u64,
    signals: Signals,
}

/// What was written, and what was not.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) cause: io::Error,
    /// Bytes that are in the present file or pipe.
    pub(super) written_bytes: u64,
    /// Bytes that are not, of those that were handed over.
    pub(super) lost_bytes: usize,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// There is something to do. Told only if the thread waits for it: each time costs two calls of
    /// the kernel.
    work: Condvar,
    /// Something was done. Told only if somebody waits for it.
    progress: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Buffers that were written, to be filled again.
    spare: Vec<Vec<u8>>,
    /// The thread waits for work.
    is_idle: bool,
    /// Somebody waits for progress.
    is_awaited: bool,
    /// Handed over and not written, also what is being written.
    waiting_bytes: usize,
    /// Since the start, or since the file was changed.
    written_bytes: u64,
    /// Why nothing is written any more.
    failure: Option<io::Error>,
    /// Nothing will be handed over any more.
    is_closed: bool,
}

enum Job {
    /// Lines.
    Write(Vec<u8>),
    /// From now on into this file.
    Change(File),
}

impl Writer {
    /// Starts the thread. While `waiting_bytes_max` wait to be written, a caller that hands over
    /// more waits too, unless it [may not](Writer::may_wait).
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(super) fn start(
        file: File,
        waiting_bytes_max: usize,
        signals: Signals,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        // Not joined at the end: a reader that has stopped reading would hold it for ever.
        thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || own.write_all(file))?;
        Ok(Self {
            shared,
            waiting_bytes_max,
            may_wait: true,
            lost_lines: 0,
            signals,
        })
    }

    /// Hands lines over, and leaves an empty buffer in their place. There is room for any number
    /// once the process is to end: what is left then is bounded by what made it.
    ///
    /// # Errors
    /// What went wrong while lines that were handed over before were written; nothing is written
    /// after that.
    pub(super) fn write(&mut self, lines: &mut Vec<u8>) -> Result<(), Failure> {
        let mut state = self.shared.lock();
        while state.failure.is_none()
            && state.waiting_bytes > 0
            && state.waiting_bytes + lines.len() > self.waiting_bytes_max
            && !self.signals.should_stop()
        {
            if !self.may_wait {
                // Behind the last of them is nothing.
                self.lost_lines += lines.split(|&byte| byte == b'\n').count() as u64 - 1;
                lines.clear();
                return Ok(());
            }
            state = self.shared.wait(state);
        }
        if let Err(failure) = state.check() {
            let lost_bytes = failure.lost_bytes + lines.len();
            lines.clear();
            return Err(Failure {
                lost_bytes,
                ..failure
            });
        }
        if !lines.is_empty() {
            state.waiting_bytes += lines.len();
            let empty = state.spare.pop().unwrap_or_default();
            let full = std::mem::replace(lines, empty);
            self.shared.hand_over(state, Job::Write(full));
        }
        Ok(())
    }

    /// Whether a caller with more lines than there is room for waits; else they are lost, and
    /// counted.
    pub(super) fn may_wait(&mut self, may_wait: bool) {
        self.may_wait = may_wait;
    }

    /// Lines for which there was no room.
    pub(super) fn lost_lines(&self) -> u64 {
        self.lost_lines
    }

    /// Handed over, and not written yet.
    #[cfg(feature = "live")]
    pub(super) fn waiting_bytes(&self) -> usize {
        self.shared.lock().waiting_bytes
    }

    /// What is handed over from now on goes into another file.
    pub(super) fn change(&self, file: File) {
        self.shared.hand_over(self.shared.lock(), Job::Change(file));
    }

    /// Waits until all is written; once the process is to end, only as long as somebody takes it.
    ///
    /// # Errors
    /// As [`Writer::write`]; of the kind `TimedOut` when nobody takes it.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        let mut state = self.shared.lock();
        let (mut written_bytes, mut since) = (state.written_bytes, Instant::now());
        while state.failure.is_none() && !state.jobs_are_done() {
            if state.written_bytes != written_bytes || !self.signals.should_stop() {
                (written_bytes, since) = (state.written_bytes, Instant::now());
            } else if since.elapsed() >= PATIENCE {
                let cause = format!("nobody has taken any of it for {} s", PATIENCE.as_secs());
                state.failure = Some(io::Error::new(io::ErrorKind::TimedOut, cause));
            }
            state = self.shared.wait(state);
        }
        state.check()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // After a failure elsewhere there may be lines left. That they cannot be written is the
        // lesser evil.
        let _ = self.finish();
        self.shared.lock().is_closed = true;
        self.shared.work.notify_one();
    }
}

impl State {
    fn jobs_are_done(&self) -> bool {
        self.jobs.is_empty() && self.waiting_bytes == 0
    }

    fn check(&self) -> Result<(), Failure> {
        let Some(cause) = &self.failure else {
            return Ok(());
        };
        Err(Failure {
            // Errors of the system are no values that can be copied, but their numbers are.
            cause: match cause.raw_os_error() {
                Some(number) => io::Error::from_raw_os_error(number),
                None => io::Error::new(cause.kind(), cause.to_string()),
            },
            written_bytes: self.written_bytes,
            lost_bytes: self.waiting_bytes,
        })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the thread a job.
    fn hand_over(&self, mut state: MutexGuard<'_, State>, job: Job) {
        state.jobs.push_back(job);
        let is_idle = state.is_idle;
        drop(state);
        if is_idle {
            self.work.notify_one();
        }
    }

    /// Waits for progress, or long enough that it is time to look for signals.
    fn wait<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.is_awaited = true;
        let waited = self.progress.wait_timeout(state, LOOK);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.is_awaited = false;
        state
    }

    /// The thread's work.
    fn write_all(&self, mut file: File) {
        let mut is_pipe = is_pipe(&file);
        while let Some(job) = self.next_job() {
            match job {
                Job::Change(other) => {
                    is_pipe = self::is_pipe(&other);
                    file = other;
                    self.lock().written_bytes = 0;
                }
                Job::Write(mut lines) => {
                    let bytes_max = if is_pipe {
                        WHOLE_IN_PIPE_BYTES
                    } else {
                        lines.len()
                    };
                    let written =
                        pieces(&lines, bytes_max).try_for_each(|piece| self.put(&mut file, piece));
                    if let Err(error) = written {
                        self.lock().failure = Some(error);
                        self.progress.notify_all();
                        return;
                    }
                    lines.clear();
                    let mut state = self.lock();
                    if state.spare.len() < SPARE {
                        state.spare.push(lines);
                    }
                }
            }
            if self.lock().is_awaited {
                self.progress.notify_all();
            }
        }
    }

    fn next_job(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            state.is_idle = true;
            let waited = self.work.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
            state.is_idle = false;
        }
    }

    fn put(&self, file: &mut File, mut piece: &[u8]) -> io::Result<()> {
        while !piece.is_empty() {
            match file.write(piece) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    let mut state = self.lock();
                    state.written_bytes += count as u64;
                    state.waiting_bytes -= count;
                    piece = &piece[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn is_pipe(file: &File) -> bool {
    file.metadata()
        .is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Whole lines that together have at most so many bytes; a line that has more is a piece of its
/// own.
fn pieces(lines: &[u8], bytes_max: usize) -> impl Iterator<Item = &[u8]> {
    let mut rest = lines;
    std::iter::from_fn(move || {
        let fits = rest.len().min(bytes_max);
        let end = match rest[..fits].iter().rposition(|&byte| byte == b'\n') {
            _ if fits == rest.len() => fits,
            Some(last) => last + 1,
            None => rest
                .iter()
                .position(|&byte| byte == b'\n')
                .map_or(rest.len(), |first| first + 1),
        };
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read};
    use std::os::fd::OwnedFd;

    use super::*;

    /// More than a pipe holds.
    const MUCH: usize = 1 << 20;

    fn writer(waiting_bytes_max: usize) -> (PipeReader, Writer, Signals) {
        writer_that(true, waiting_bytes_max)
    }

    fn writer_that(may_wait: bool, waiting_bytes_max: usize) -> (PipeReader, Writer, Signals) {
        let (reader, pipe) = io::pipe().unwrap();
        let signals = Signals::default();
        let pipe = File::from(OwnedFd::from(pipe));
        let mut writer = Writer::start(pipe, waiting_bytes_max, signals.clone()).unwrap();
        writer.may_wait(may_wait);
        (reader, writer, signals)
    }

    #[test]
    fn a_reader_that_comes_late_gets_all() {
        let (mut reader, mut writer, _) = writer(2 * MUCH);
        let line = [vec![b'x'; 999], vec![b'\n']].concat();
        // Nobody reads, and yet nobody waits.
        for _ in 0..MUCH / line.len() {
            writer.write(&mut line.clone()).unwrap();
        }
        let taker = thread::spawn(move || {
            let mut taken = Vec::new();
            reader.read_to_end(&mut taken).unwrap();
            taken
        });
        writer.finish().unwrap();
        drop(writer);
        assert_eq!(taker.join().unwrap(), line.repeat(MUCH / line.len()));
    }

    #[test]
    fn what_is_too_much_waits_until_some_is_read() {
        let (mut reader, mut writer, _) = writer(MUCH);
        let lines = vec![b'\n'; MUCH];
        let rest = thread::scope(|scope| {
            let handing = scope.spawn(|| [(); 2].map(|()| writer.write(&mut lines.clone())));
            let mut taken = vec![0; MUCH];
            reader.read_exact(&mut taken).unwrap();
            let rest = thread::spawn(move || io::copy(&mut reader, &mut io::sink()));
            assert!(handing.join().unwrap().iter().all(Result::is_ok));
            rest
        });
        writer.finish().unwrap();
        drop(writer);
        assert_eq!(rest.join().unwrap().unwrap(), MUCH as u64);
    }

    #[test]
    fn whoever_may_not_wait_loses_lines_that_are_counted() {
        let (mut reader, mut writer, _) = writer_that(false, MUCH);
        let lines = vec![b'\n'; MUCH];
        for _ in 0..3 {
            writer.write(&mut lines.clone()).unwrap();
        }
        assert_eq!(writer.lost_lines(), 2 * MUCH as u64);
        let taker = thread::spawn(move || io::copy(&mut reader, &mut io::sink()));
        writer.finish().unwrap();
        writer.write(&mut lines.clone()).unwrap();
        drop(writer);
        assert_eq!(taker.join().unwrap().unwrap(), 2 * MUCH as u64);
    }

    #[test]
    fn a_reader_that_takes_nothing_is_given_up_when_it_is_time_to_end() {
        let (reader, mut writer, signals) = writer(MUCH);
        writer.write(&mut vec![b'\n'; MUCH]).unwrap();
        let stopped = thread::scope(|scope| {
            // Waits for room, or for the end.
            let handing = scope.spawn(|| writer.write(&mut vec![b'\n'; MUCH]));
            signals.stop();
            handing.join().unwrap()
        });
        stopped.unwrap();
        let failure = writer.finish().unwrap_err();
        assert_eq!(failure.cause.kind(), io::ErrorKind::TimedOut);
        assert_eq!(
            failure.written_bytes + failure.lost_bytes as u64,
            2 * MUCH as u64
        );
        assert!(failure.lost_bytes > MUCH);
        drop(reader);
    }

    #[test]
    fn a_reader_that_is_gone_is_told() {
        let (reader, mut writer, _) = writer(MUCH);
        drop(reader);
        writer.write(&mut b"line\n".to_vec()).unwrap();
        let failure = writer.finish().unwrap_err();
        assert_eq!(failure.cause.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!((failure.written_bytes, failure.lost_bytes), (0, 5));
        assert!(writer.write(&mut b"line\n".to_vec()).is_err());
    }

    proptest::proptest! {
        #[test]
        fn pieces_are_whole_lines_and_lose_nothing(lines in "(x{0,12}\n){0,20}x{0,3}", bytes_max in 1_usize..20) {
            let pieces: Vec<_> = pieces(lines.as_bytes(), bytes_max).collect();
            proptest::prop_assert_eq!(pieces.concat(), lines.as_bytes());
            let is_whole = |piece: &[u8]| piece.ends_with(b"\n");
            proptest::prop_assert!(pieces.iter().rev().skip(1).all(|piece| is_whole(piece)));
            let is_short = |piece: &&[u8]| piece.len() <= bytes_max || piece[..piece.len() - 1].iter().all(|&byte| byte != b'\n');
            proptest::prop_assert!(pieces.iter().all(is_short));
        }
    }
}
