//! A server of the test's own, which can go away and come back.

use std::process::Command;

use tempfile::TempDir;

use crate::private_postgres::process::{Running, adjutant_on};
use crate::world::World;

pub struct OwnServer {
    dir: TempDir,
    running: Option<Running>,
    environment: Vec<(&'static str, String)>,
}

impl OwnServer {
    pub fn start() -> Self {
        Self::start_with(Vec::new())
    }

    /// With these in the server's environment.
    pub fn start_with(environment: Vec<(&'static str, String)>) -> Self {
        let mut server = Self { dir: TempDir::new().unwrap(), running: None, environment };
        server.come_back();
        server
    }

    pub async fn world(&self) -> World {
        let world = World::at(self.running.as_ref().unwrap().url()).await;
        // It is never the machine that crashes here, and disks are slow.
        for statement in ["alter system set fsync = off", "select pg_reload_conf()"] {
            sqlx::query(statement).execute(&world.sql).await.unwrap();
        }
        world
    }

    /// Sends its clients away and ends.
    pub fn go_away(&mut self) {
        self.running.take().unwrap().stop().unwrap();
    }

    /// On the same data, under the same URL.
    pub fn come_back(&mut self) {
        let mut command: Command = adjutant_on(self.dir.path());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        self.running = Some(Running::start(&mut command).unwrap());
    }
}
