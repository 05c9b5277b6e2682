//! A PostgreSQL cluster in a temporary directory, which ends with the run.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{self, Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, process, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};

use crate::Result;
use crate::capacity;
use crate::children::{Process, wait_for_the_run};

/// Where Debian puts the programs: a folder for each version, with `bin` in it.
const DEBIAN: &str = "/usr/lib/postgresql";
/// Time for a start, with the recovery after a crash.
pub const START_LIMIT: Duration = Duration::from_secs(60);

/// A server of this run. Dropping it kills the server and removes its files.
pub struct Cluster {
    programs: PathBuf,
    directory: PathBuf,
    user: Option<User>,
    connections: u32,
    server: Option<Child>,
    /// Does what the drop does, if the run is killed.
    _reaper: Process,
}

impl Cluster {
    /// The port of the server, which is only a name: it listens on a socket in its directory.
    pub const PORT: u16 = 5432;

    /// Makes a cluster and starts its server, with connections for so many workers. Looks for the programs in
    /// `programs`, or else where they usually are.
    pub fn start(programs: Option<&Path>, workers: u32) -> Result<Self> {
        let programs = match programs {
            // The programs start in another folder.
            Some(folder) => find_in([path::absolute(folder)?]),
            None => find(),
        };
        let programs = programs.ok_or(
            "PostgreSQL's server programs initdb and postgres were not found. Install them (Debian: apt-get install \
             postgresql), or set DATABASE_URL to a server of your own",
        )?;
        let user = unprivileged()?;
        let directory = env::temp_dir().join(format!("cluster-holds-{}", process::id()));
        DirBuilder::new()
            .mode(0o700)
            .create(&directory)
            .map_err(|error| format!("{} could not be created: {error}", directory.display()))?;
        let reaper = Process::start("", "reaper", &[directory.display().to_string()], &Arc::default())?;
        let connections = capacity::needed(workers);
        let mut cluster = Self { programs, directory, user, connections, server: None, _reaper: reaper };
        if let Some(user) = &cluster.user {
            chown(&cluster.directory, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
        }
        cluster.run_initdb()?;
        cluster.start_server()?;
        Ok(cluster)
    }

    /// Returns the address of the server, on a socket in its directory.
    pub fn url(&self) -> String {
        format!("host='{}' user=postgres dbname=postgres", self.directory.display())
    }

    /// Returns the socket on which the server of this port listens.
    pub fn socket(&self, port: u16) -> PathBuf {
        self.directory.join(format!(".s.PGSQL.{port}"))
    }

    /// Returns the process of the server.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Child::id)
    }

    /// Ends the server at once, as a crash does: it writes nothing that it has in memory.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut server) = self.server.take()
            && server.try_wait()?.is_none()
        {
            // SIGQUIT is PostgreSQL's immediate shutdown, which also ends the processes of the connections.
            kill(Pid::from_raw(server.id() as i32), Signal::SIGQUIT)?;
            server.wait()?;
        }
        Ok(())
    }

    /// Starts the server again; it recovers from its log.
    pub fn start_server(&mut self) -> Result<()> {
        let socket = self.directory.display();
        let mut command = self.command("postgres")?;
        command.arg("-D").arg(self.data());
        for setting in [
            "listen_addresses=".to_owned(),
            format!("unix_socket_directories={socket}"),
            "unix_socket_permissions=0700".to_owned(),
            format!("max_connections={}", self.connections),
            format!("port={}", Self::PORT),
        ] {
            command.arg("-c").arg(setting);
        }
        self.server = Some(command.spawn().map_err(|error| self.not_started("postgres", &error))?);
        let started = Instant::now();
        while !self.is_ready()? {
            if started.elapsed() > START_LIMIT {
                return Err(self.failure("the server did not start in time"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Returns how often the server has recovered from a crash, by its log.
    pub fn recoveries(&self) -> Result<u64> {
        Ok(fs::read_to_string(self.log())?.matches("automatic recovery in progress").count() as u64)
    }

    /// Fails if the server has ended by itself.
    pub fn check(&mut self) -> Result<()> {
        match self.server.as_mut().map(Child::try_wait).transpose()?.flatten() {
            None => Ok(()),
            Some(status) => Err(self.failure(&format!("the server has ended by itself, with {status}"))),
        }
    }

    /// Reads the state that the server writes to the last line of a file.
    fn is_ready(&mut self) -> Result<bool> {
        self.check()?;
        match fs::read_to_string(self.data().join("postmaster.pid")) {
            // The file may be an old one, of a server that was killed.
            Ok(state) => Ok(state.lines().next().and_then(|pid| pid.parse().ok()) == self.pid()
                && state.lines().next_back().is_some_and(|line| line.trim() == "ready")),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn run_initdb(&self) -> Result<()> {
        let mut command = self.command("initdb")?;
        command.args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync"]);
        command.arg("-D").arg(self.data());
        let status = command.status().map_err(|error| self.not_started("initdb", &error))?;
        if status.success() { Ok(()) } else { Err(self.failure("initdb failed")) }
    }

    /// Prepares one of the programs: as the unprivileged user, out of reach of the terminal's signals, with a log.
    fn command(&self, program: &str) -> Result<Command> {
        let log = File::options().create(true).append(true).open(self.log())?;
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(&self.directory).process_group(0);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        if let Some(user) = &self.user {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        Ok(command)
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    fn not_started(&self, program: &str, error: &io::Error) -> String {
        let user = self.user.as_ref().map_or("this user", |user| &user.name);
        let (programs, directory) = (self.programs.display(), self.directory.display());
        format!("{programs}/{program} could not be started: {error}. {user} needs access to it and to {directory}")
    }

    fn failure(&self, what: &str) -> Box<dyn std::error::Error + Send + Sync> {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let tail: Vec<_> = log.lines().rev().take(10).collect();
        format!("{what}. Its log ends with:\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n")).into()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("the server could not be ended: {error}");
        }
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            eprintln!("{} could not be removed: {error}", self.directory.display());
        }
    }
}

/// Waits until the run has ended. Ends the server, and removes its files, if the run has left them.
pub fn reap(directory: &Path) -> Result<()> {
    wait_for_the_run();
    let started = Instant::now();
    while directory.exists() && started.elapsed() < START_LIMIT {
        // Its first line is the process. While the server starts, there may be none yet.
        let state = fs::read_to_string(directory.join("data/postmaster.pid")).unwrap_or_default();
        if let Some(Ok(pid)) = state.lines().next().map(str::parse) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGQUIT);
        } else {
            let _ = fs::remove_dir_all(directory);
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Looks in `PATH`, then where Debian puts the programs, newest version first.
fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut debian: Vec<_> = fs::read_dir(DEBIAN).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    debian.sort_by_key(|path| std::cmp::Reverse(version(path)));
    find_in(env::split_paths(&path).chain(debian.into_iter().map(|version| version.join("bin"))))
}

/// Returns the first folder that has both programs.
fn find_in(folders: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let is_program =
        |path: PathBuf| fs::metadata(path).is_ok_and(|is| is.is_file() && is.permissions().mode() & 0o111 != 0);
    folders.into_iter().find(|folder| ["initdb", "postgres"].iter().all(|name| is_program(folder.join(name))))
}

/// Returns the user to run the server as, if this process runs as root: PostgreSQL refuses that.
fn unprivileged() -> Result<Option<User>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    for name in ["postgres", "nobody"] {
        if let Some(user) = User::from_name(name)? {
            return Ok(Some(user));
        }
    }
    Err("PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody".into())
}
