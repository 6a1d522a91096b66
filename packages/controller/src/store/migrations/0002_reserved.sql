-- Reserved: the number of a migration that is made elsewhere.
select 1;
