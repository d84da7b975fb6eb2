//! `sqlx::migrate!` embeds the migrations; cargo has to be told to look at them.
fn main() {
    println!("cargo:rerun-if-changed=../../migrations");
}
