-- Which releases fit this schema: one row. A migration that takes something away raises it; a process whose newest
-- migration is older than this refuses to start.
create table schema_fit (
    one boolean primary key default true check (one),
    oldest_release bigint not null
);
insert into schema_fit (oldest_release) values (16);

comment on column schema_fit.oldest_release is 'The newest migration of the oldest release that still runs on this schema.';
