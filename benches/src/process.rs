//! Servers as child processes: started on a free port of the loopback, watched through `/proc`, ended on drop.
//!
//! A signal that ends the program ends its children by [`end_all`]; only one that cannot be caught leaves them.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read as _,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use server::remoting::RequestCode;
use tempfile::TempDir;

use crate::client::{Client, Query};

/// A JVM on a busy machine needs seconds.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How often the port is tried until the server listens: as fine as its start is to be known.
const CONNECT_INTERVAL: Duration = Duration::from_micros(100);

/// Under valgrind an end takes seconds, on a busy machine more.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_INTERVAL: Duration = Duration::from_millis(10);

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Guarded,
    addr: SocketAddr,
    home: TempDir,
    start: Duration,
}

impl Server {
    /// Starts `command(home, port)` and waits for its first answer.
    ///
    /// # Errors
    /// When the process ends or does not answer in time; says what it has printed.
    pub fn start(command: impl FnOnce(&Path, u16) -> anyhow::Result<Command>) -> anyhow::Result<Self> {
        let home = TempDir::with_prefix("nsbench-")?;
        let addr = free_addr()?;
        let mut command = command(home.path(), addr.port())?;
        let log = File::create(home.path().join("output"))?;
        command.current_dir(home.path()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let begin = Instant::now();
        let child = Guarded::spawn(&mut command)?;
        let mut server = Self { child, addr, home, start: Duration::ZERO };
        let mut client = server.wait_for_port(begin)?;
        client.call(&Query::new(RequestCode::GetBrokerClusterInfo, &[]))?;
        server.start = begin.elapsed();
        Ok(server)
    }

    fn wait_for_port(&mut self, begin: Instant) -> anyhow::Result<Client> {
        loop {
            if let Ok(client) = Client::connect(self.addr) {
                return Ok(client);
            }
            if let Some(status) = self.child.0.try_wait()? {
                bail!("the server ended: {status}\n{}", self.output());
            }
            ensure!(begin.elapsed() < START_TIMEOUT, "nobody listens after {START_TIMEOUT:?}\n{}", self.output());
            thread::sleep(CONNECT_INTERVAL);
        }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Time from the creation of the process to its first answer.
    pub fn start_time(&self) -> Duration {
        self.start
    }

    /// CPU time that the process has used so far.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn cpu(&self) -> anyhow::Result<CpuTime> {
        CpuTime::of(self.child.0.id())
    }

    /// Memory that is resident now, in bytes (`VmRSS`).
    ///
    /// # Errors
    /// When the process has ended.
    pub fn resident(&self) -> anyhow::Result<u64> {
        self.status("VmRSS:")
    }

    /// The most memory that was ever resident, in bytes (`VmHWM`).
    ///
    /// # Errors
    /// When the process has ended.
    pub fn resident_peak(&self) -> anyhow::Result<u64> {
        self.status("VmHWM:")
    }

    fn status(&self, field: &str) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.0.id()))?;
        kib_of(&status, field).map(|kib| kib << 10).with_context(|| format!("no {field} in /proc/PID/status"))
    }

    /// Asks it to end, and waits until it has: so that it does what it does at its end.
    ///
    /// # Errors
    /// When it fails, or does not end in time.
    pub fn stop(mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child.0), Signal::TERM)?;
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.0.try_wait()? {
                ensure!(status.success(), "the server ended: {status}\n{}", self.output());
                return Ok(());
            }
            ensure!(begin.elapsed() < STOP_TIMEOUT, "the server runs on after {STOP_TIMEOUT:?}");
            thread::sleep(STOP_INTERVAL);
        }
    }

    fn output(&self) -> String {
        fs::read_to_string(self.home.path().join("output")).unwrap_or_default()
    }
}

/// A child that ends with its owner, and with [`end_all`].
#[derive(Debug)]
struct Guarded(Child);

/// The children that run.
static CHILDREN: Mutex<Children> = Mutex::new(Children { running: Vec::new(), are_ended: false });

struct Children {
    running: Vec<u32>,
    are_ended: bool,
}

fn children() -> MutexGuard<'static, Children> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends all children, and lets no new one start. For the handler of a signal that ends the program.
pub fn end_all() {
    let mut children = children();
    children.are_ended = true;
    for pid in children.running.iter().filter_map(|&id| Pid::from_raw(i32::try_from(id).ok()?)) {
        // An error says that it has ended by itself and is not yet waited for.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// Whether [`end_all`] was called.
pub fn are_ended() -> bool {
    children().are_ended
}

/// Whether this process ignores a signal, as whoever has started it wanted.
pub fn is_ignored(signal: Signal) -> bool {
    is_in_mask(&fs::read_to_string("/proc/self/status").unwrap_or_default(), "SigIgn:", signal)
}

/// Sleeps, unless [`end_all`] is called.
///
/// # Errors
/// When it is.
pub fn sleep(duration: Duration) -> anyhow::Result<()> {
    let start = Instant::now();
    while let Some(left) = duration.checked_sub(start.elapsed()) {
        ensure!(!are_ended(), "interrupted");
        thread::sleep(left.min(Duration::from_millis(50)));
    }
    Ok(())
}

/// Runs a command to its end: what it has printed, when it succeeds.
///
/// # Errors
/// When it cannot be started, or fails: with what it has printed.
pub fn run(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let name = command.get_program().to_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Output { status, stdout, stderr } = Guarded::spawn(command)?.output()?;
    let said = [&*stdout, &*stderr].map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned()).join("\n");
    ensure!(status.success(), "{}: {status}\n{}", name.display(), said.trim());
    Ok(stdout)
}

impl Guarded {
    fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        // A group of its own: a Ctrl-C in the terminal is for us alone, and what it starts itself ends with it.
        command.process_group(0);
        // Held while it starts: nothing starts unseen by `end_all`.
        let mut children = children();
        ensure!(!children.are_ended, "interrupted");
        let child = command.spawn().with_context(|| command.get_program().display().to_string())?;
        children.running.push(child.id());
        Ok(Self(child))
    }

    fn output(mut self) -> anyhow::Result<Output> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        thread::scope(|scope| {
            let pipe = self.0.stderr.take();
            let read = scope.spawn(|| pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut stderr)));
            if let Some(pipe) = &mut self.0.stdout {
                pipe.read_to_end(&mut stdout)?;
            }
            read.join().expect("reading does not panic")
        })?;
        let status = self.0.wait()?;
        Ok(Output { status, stdout, stderr })
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Its number may be another's once it is waited for.
        let mut children = children();
        children.running.retain(|&id| id != self.0.id());
        let _ = self.0.kill();
        drop(children);
        let _ = self.0.wait();
    }
}

/// CPU time that a process has used, of all its threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In steps of a clock tick, 10 ms.
    ticks: Duration,
    /// Of each thread that lives, exactly; empty where the system does not say.
    threads: BTreeMap<u32, Duration>,
}

impl CpuTime {
    /// Up to now.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn of(process: u32) -> anyhow::Result<Self> {
        let ticks = cpu_of(process)?;
        let mut threads = BTreeMap::new();
        for thread in fs::read_dir(format!("/proc/{process}/task"))? {
            let thread = thread?;
            // A thread may end while the folder is read.
            let used = fs::read_to_string(thread.path().join("schedstat")).ok().and_then(|text| cpu_nanos(&text));
            if let (Some(used), Some(id)) = (used, thread.file_name().to_str().and_then(|id| id.parse().ok())) {
                threads.insert(id, Duration::from_nanos(used));
            }
        }
        Ok(Self { ticks, threads })
    }

    /// What was used since then: the exact times of the threads, but for what went with threads that have ended, which
    /// the coarse time shows.
    pub fn since(&self, before: &Self) -> Duration {
        let of_thread =
            |(id, used): (&u32, &Duration)| used.saturating_sub(before.threads.get(id).copied().unwrap_or_default());
        let exact: Duration = self.threads.iter().map(of_thread).sum();
        let coarse = self.ticks.saturating_sub(before.ticks);
        if coarse > exact + COARSE_ERROR { coarse } else { exact }
    }
}

/// User and system time are each cut to a tick of 10 ms, at both ends.
const COARSE_ERROR: Duration = Duration::from_millis(20);

/// CPU time that a process has used so far, of all its threads. In steps of a clock tick, 10 ms.
///
/// # Errors
/// When there is no such process.
fn cpu_of(process: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let ticks = cpu_ticks(&stat).with_context(|| format!("no CPU time in {stat:?}"))?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Writes a configuration file for a name server, ours or the official one.
///
/// # Errors
/// When the file cannot be written.
pub fn write_config(home: &Path, port: u16) -> anyhow::Result<PathBuf> {
    let file = home.join("namesrv.properties");
    let text = format!(
        "listenPort={port}\nbindAddress=127.0.0.1\nkvConfigPath={}\nconfigStorePath={}\n",
        home.join("kvConfig.json").display(),
        file.display()
    );
    fs::write(&file, text)?;
    Ok(file)
}

/// How to start our server, of which `binary` is the program.
///
/// # Errors
/// When its configuration cannot be written.
pub fn namesrv(binary: &Path, home: &Path, port: u16) -> anyhow::Result<Command> {
    let mut command = Command::new(binary);
    command.arg("-c").arg(write_config(home, port)?).env("ROCKETMQ_HOME", home).env("HOME", home);
    for name in ["ROCKETMQ_SERIALIZE_TYPE", "NAMESRV_ADDR", "RUST_LOG"] {
        command.env_remove(name);
    }
    Ok(command)
}

fn free_addr() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// User and system time: the 14th and the 15th field. The second one, the name, may contain anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

/// Whether the bit of a signal is set in the hexadecimal mask of a field, in which the lowest is that of signal 1.
fn is_in_mask(status: &str, field: &str, signal: Signal) -> bool {
    let digits = status.lines().find_map(|line| line.strip_prefix(field));
    let mask = digits.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal.as_raw() - 1) & 1 == 1
}

/// The first field, nanoseconds on a processor.
fn cpu_nanos(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().next()?.parse().ok()
}

/// The value of a field of a file that says `field: number kB` in a line.
pub(crate) fn kib_of(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 200 0 0 12 34 5 6 20 0 9 0 1 2 3";
        assert_eq!(cpu_ticks(stat), Some(46));
        assert_eq!(cpu_ticks("7 (x) S 1"), None);
        let status = "Name:\tx\nVmHWM:\t    4096 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!((kib_of(status, "VmRSS:"), kib_of(status, "VmHWM:")), (Some(1024), Some(4096)));
        assert_eq!(kib_of(status, "VmSwap:"), None);
        assert_eq!((kib_of("x:24683652 kB", "x:"), kib_of("x:24683652", "x:")), (Some(24_683_652), None));
        let status = "SigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\n";
        let is_ignored = |signal| is_in_mask(status, "SigIgn:", signal);
        assert!(is_ignored(Signal::HUP) && is_ignored(Signal::PIPE) && !is_ignored(Signal::INT));
        assert!(!is_in_mask("", "SigIgn:", Signal::HUP));
        assert_eq!((cpu_nanos("200884323 31666183 667\n"), cpu_nanos("")), (Some(200_884_323), None));
    }

    #[test]
    fn cpu_time_is_that_of_threads_and_of_those_that_have_ended() {
        let ms = Duration::from_millis;
        let time = |ticks, threads: &[(u32, u64)]| {
            let threads = threads.iter().map(|&(id, micros)| (id, Duration::from_micros(micros))).collect();
            CpuTime { ticks: ms(ticks), threads }
        };
        let before = time(100, &[(1, 5_000), (2, 96_000)]);
        assert_eq!(time(110, &[(1, 6_500), (2, 96_000), (3, 250)]).since(&before), Duration::from_micros(1_750));
        // Thread 2 took a second with it.
        assert_eq!(time(1_100, &[(1, 6_500)]).since(&before), ms(1_000));
        assert_eq!(time(130, &[]).since(&time(100, &[])), ms(30));
    }

    #[test]
    fn the_cpu_time_of_this_process_grows_with_its_work() {
        let before = CpuTime::of(std::process::id()).unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(50) {
            std::hint::spin_loop();
        }
        let used = CpuTime::of(std::process::id()).unwrap().since(&before);
        assert!(used > Duration::ZERO, "{used:?}");
    }

    #[test]
    fn a_command_that_fails_is_told_with_its_words() {
        assert_eq!(run(Command::new("echo").arg("x")).unwrap(), b"x\n");
        let error = run(Command::new("sh").args(["-c", "echo no such crate >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("no such crate") && error.contains("sh: exit status: 3"), "{error}");
        assert!(run(&mut Command::new("no-such-program")).unwrap_err().to_string().contains("no-such-program"));
    }

    #[test]
    fn a_process_that_ends_is_told_with_its_words() {
        let command = |_: &Path, _| {
            let mut command = Command::new("sh");
            command.args(["-c", "echo no such file; exit 3"]);
            Ok(command)
        };
        let error = Server::start(command).unwrap_err().to_string();
        assert!(error.contains("no such file") && error.contains('3'), "{error}");
    }
}
