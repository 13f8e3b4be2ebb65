//! Servers as child processes: started on a free port of the loopback, watched through `/proc`, ended on drop.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use server::remoting::RequestCode;
use tempfile::TempDir;

use crate::client::{Client, Query};

/// A JVM on a busy machine needs seconds.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How often the port is tried until the server listens: as fine as its start is to be known.
const CONNECT_INTERVAL: Duration = Duration::from_micros(100);

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Child,
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
        let home = TempDir::with_prefix("numbers-")?;
        let addr = free_addr()?;
        let mut command = command(home.path(), addr.port())?;
        let log = File::create(home.path().join("output"))?;
        command.current_dir(home.path()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let begin = Instant::now();
        let child = command.spawn().with_context(|| format!("{:?}", command.get_program()))?;
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
            if let Some(status) = self.child.try_wait()? {
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

    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// CPU time that the process has used so far; see [`cpu_of`].
    ///
    /// # Errors
    /// When the process has ended.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        cpu_of(self.child.id())
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
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        kib_of(&status, field).map(|kib| kib << 10).with_context(|| format!("no {field} in /proc/PID/status"))
    }

    fn output(&self) -> String {
        fs::read_to_string(self.home.path().join("output")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time that a process has used so far, of all its threads. In steps of a clock tick, 10 ms.
///
/// # Errors
/// When there is no such process.
pub fn cpu_of(process: u32) -> anyhow::Result<Duration> {
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

fn kib_of(status: &str, field: &str) -> Option<u64> {
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
