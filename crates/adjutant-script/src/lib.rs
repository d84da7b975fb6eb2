//! A model server that plays a script, for tests, demos and people.
