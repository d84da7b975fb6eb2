//! All integration tests are one binary: it links once, and the tests of all files share its run.

mod private_postgres;
