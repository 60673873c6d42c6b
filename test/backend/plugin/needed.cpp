// The library that crafted_needs.so is linked to and does not find.
int crafted_needed();
int crafted_needed() { return 1; }
