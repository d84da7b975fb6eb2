-- Which releases fit this schema: one row. It is the newest migration of the oldest release that
-- still runs on this schema. A program whose newest migration is older refuses to start.
--
-- No release exists yet, so only programs with all of these migrations fit. A later migration that
-- only adds leaves the number alone; one that removes or changes something raises it to its own
-- number.
create table schema_fit (
    one boolean primary key default true check (one),
    oldest_release bigint not null
);
insert into schema_fit (oldest_release) values (37);

comment on table schema_fit is 'The releases that fit this schema: one row.';
comment on column schema_fit.oldest_release is
    'The newest migration of the oldest release that still runs on this schema.';
