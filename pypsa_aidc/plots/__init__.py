"""Every drawing of the package, one module a subject, all in the palette and sizes of `style`.

Result objects draw themselves with ``.plot()``, a network with AIDCs with ``n.aidc.plot``. The functions here take the
same objects. Modules of this package are imported only where something is drawn: they import matplotlib. Figures belong
to nobody but the caller: `matplotlib.pyplot` never sees them, and they may be drawn in several threads.
"""
