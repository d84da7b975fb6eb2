//! `sqlx::migrate!` embeds the migrations; cargo has to be told that it depends on them.
fn main() {
    println!("cargo:rerun-if-changed=../../migrations");
}
