//! Guards, broken on purpose. `make mutants` runs the tests against each and expects them to fail.
pub struct Mutant {
    pub name: &'static str,
}
impl Mutant {
    pub async fn apply(&self, _c: &mut sqlx::PgConnection) {}
}
pub fn chosen() -> Option<&'static Mutant> {
    None
}
