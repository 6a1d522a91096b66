-- Names of models have letters and digits of any script, as the protocol defines. Expressions of PostgreSQL know the letters of
-- its locale only, so the check lists the ASCII characters that no name has.
alter table models drop constraint models_name_check;
alter table models add constraint models_name_check check (
  name ~ '^[^._:@/+-].{0,199}$'
  and name !~ '\.\.|//'
  and name !~ '[\u0001-\u002a\u002c\u003b-\u003f\u005b-\u005e\u0060\u007b-\u00a0]'
  and name is nfc normalized
);
