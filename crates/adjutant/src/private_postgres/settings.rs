//! The server's settings. They are passed at each start, so that no file in the cluster has to be
//! edited.

use std::ffi::OsString;

use super::data_dir::DataDir;

const ALWAYS: [&str; 8] = [
    // Only the unix socket.
    "listen_addresses=",
    "port=5432",
    "max_connections=200",
    "shared_buffers=128MB",
    "max_wal_size=1GB",
    // Some distributions log to files of their own. The guard captures the output.
    "logging_collector=off",
    "log_destination=stderr",
    "cluster_name=adjutant",
];

const THROWAWAY: [&str; 3] = ["fsync=off", "synchronous_commit=off", "full_page_writes=off"];

pub fn arguments(data: &DataDir) -> Vec<OsString> {
    let mut socket_dir = OsString::from("unix_socket_directories=");
    socket_dir.push(data.socket_dir());
    let mut settings: Vec<OsString> = ALWAYS.map(OsString::from).to_vec();
    settings.push(socket_dir);
    if !data.is_durable() {
        settings.extend(THROWAWAY.map(OsString::from));
    }
    settings.into_iter().flat_map(|setting| ["-c".into(), setting]).collect()
}
