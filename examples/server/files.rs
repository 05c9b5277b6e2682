//! The limit of open files.

/// Raises the limit to what these numbers of sockets and of threads with an event loop need.
pub fn raise_limit(sockets: usize, threads: usize) -> Result<(), String> {
    let needed = (sockets + 8 * threads + 64) as u64;
    let limit = rlimit::increase_nofile_limit(needed).map_err(|error| error.to_string())?;
    if limit < needed {
        return Err(format!(
            "{needed} open files are needed, but the system allows {limit}: raise the hard limit (ulimit -Hn)"
        ));
    }
    Ok(())
}
